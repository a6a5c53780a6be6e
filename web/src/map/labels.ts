/** The texts in bubbles, and the names next to them: the largest holders and all wallets with a name get one if there is room. */
import { brief, cut, share } from "../format";
import type { Look } from "./brush";
import { TINT_WIDTH, type Bubble } from "./scene";

/** A circle in pixels. */
type Disc = { bubble: Bubble; x: number; y: number; radius: number };
/** Directions from a bubble to its name, the best first. */
const SIDES: readonly Side[] = [[1, 0], [-1, 0], [0, 1], [0, -1], [1, 1], [1, -1], [-1, 1], [-1, -1]];
type Side = [right: number, down: number];
/** A name next to a bubble; `away` are the pixels of the line that leads from the bubble to it, if there is one. */
export type Label = { bubble: Bubble; text: string; side: Side; width: number; away: number };
/** A part of the map in pixels. */
export type Box = [left: number, top: number, right: number, bottom: number];

export const LABEL_PIXELS = 12;
/** Pixels between a bubble and its name. */
const SPACE = 4;
/** Pixels between two names in one line, more than between two words. */
const BETWEEN = 16;
/** Pixels between a name and any other bubble: far more than to its own, so that no one has to guess. */
const CLEAR = 11;
/** Pixels between the line to a name and any other bubble. */
const LEADER_CLEAR = 2;
/** Lengths of the lines that lead to names without room next to their bubbles. */
const LEADERS = [18, 34, 54, 80, 112];
const LEADER_SIDES = Array.from({ length: 16 }, (_, at): Side => [Math.cos((at * Math.PI) / 8), Math.sin((at * Math.PI) / 8)]);
const LARGEST = 10;
const MOST_LABELS = 40;
const MOST_LETTERS = 26;

/** Radii (pixels) from which a bubble has room for a number or sign, for its share alone, and for its share with more. */
const [SIGN_FROM, SHARE_FROM, NAMED_FROM] = [6, 22, 26];
/** A longer name is in two lines in bubbles with a sign from this radius (pixels) on, and next to smaller ones. */
const WRAPPED_FROM = 34;
/** A long word is cut only in lines of at least this many letters. */
const CUT_FROM = 12;

/** Returns a name in two lines, or nothing if it does not fit. */
function wrapped(text: string, fitting: number): string[] {
  const space = text.lastIndexOf(" ", fitting);
  if (space > 0 && text.length - space - 1 <= fitting + 1) return [text.slice(0, space), text.slice(space + 1)];
  return fitting >= CUT_FROM ? [cut(text, fitting)] : [];
}

/** The texts of a bubble that is `seen` pixels in radius, from top to bottom, their size in pixels, and whether its name is one. */
export function textsOf({ node }: Bubble, sign: string, seen: number): { texts: string[]; size: number; isNamed: boolean } {
  const isSmall = seen < NAMED_FROM;
  const size = Math.round((isSmall ? (sign ? Math.max(9, Math.min(13, seen * 0.95)) : 11) : Math.min(22, Math.max(11.5, seen / 6))) * 2) / 2;
  if (seen < (sign ? SIGN_FROM : SHARE_FROM) || node.kind === "time" || node.kind === "magic") return { texts: [], size, isNamed: false };
  const fitting = Math.floor((seen * 2.9) / size);
  const whole = node.label ? cut(node.label, 60) : brief(node.address);
  const names = whole.length <= fitting ? [whole] : node.label && seen > (sign ? WRAPPED_FROM : NAMED_FROM) ? wrapped(whole, fitting) : [];
  const mark = sign === String(node.cluster_id) && seen >= WRAPPED_FROM ? `cluster ${sign}` : sign;
  return { texts: (isSmall ? [sign || share(node.share)] : [...names, share(node.share), mark]).filter(Boolean), size, isNamed: !isSmall && names.length > 0 };
}

/** Returns the box of a label, relative to the middle of its bubble, in pixels. */
export function boxOf({ side: [right, down], width, away }: Pick<Label, "side" | "width" | "away">, radius: number): Box {
  const distance = (radius + SPACE + away) / Math.hypot(right, down);
  const [x, y] = [right * (distance + width / 2), down * (distance + LABEL_PIXELS / 2)];
  return [x - width / 2, y - LABEL_PIXELS / 2, x + width / 2, y + LABEL_PIXELS / 2];
}

/** Returns both ends of the line from a bubble to its label, relative to the middle of the bubble. */
export function leaderOf(label: Pick<Label, "side" | "width" | "away">, radius: number): [Side, Side] {
  const [left, top, right, bottom] = boxOf(label, radius);
  const end: Side = [Math.min(Math.max(0, left - 2), right + 2), Math.min(Math.max(0, top), bottom)];
  const part = radius / (Math.hypot(...end) || 1);
  return [[end[0] * part, end[1] * part], end];
}

/** Returns the labels that have room, the largest holders first. A name is next to its own bubble and far from any other,
 * or a line leads to it that crosses no bubble, tint of another cluster or name. Bubbles without such a place get no name. An exchange has one name for all of its windows. */
export function labelsOf(discs: Disc[], [width, height]: [number, number], covered: Box[], look: Look, widthOf: (text: string) => number): Label[] {
  const ordered = discs.filter(({ bubble }) => bubble.node.kind !== "time").sort((one, two) => (two.bubble.node.share ?? 0) - (one.bubble.node.share ?? 0));
  const wanted = ordered.filter(({ bubble: { node } }, place) => node.label || (place < LARGEST && node.share !== null));
  const windows = discs.filter(({ bubble: { node } }) => node.kind === "time" && node.label);
  const taken = [...covered];
  const leaders: [Side, Side][] = [];
  const named = new Set<string>();
  const labels: Label[] = [];
  /** Whether a larger holder has neither name nor share: then an address has none. */
  let isMissing = false;
  const meets = (one: Box, [left, top, right, bottom]: Box) => one[0] < right && one[2] > left && one[1] < bottom && one[3] > top;
  for (const disc of [...wanted, ...windows]) {
    const { bubble, x, y, radius } = disc;
    const { address, label } = bubble.node;
    if (labels.length === MOST_LABELS) break;
    if (named.has(address) || textsOf(bubble, look.sign(bubble), radius).isNamed) continue;
    if (isMissing && !label) continue;
    const text = label ? cut(label, MOST_LETTERS) : brief(address);
    const wide = widthOf(text);
    const others = discs.filter((other) => other !== disc).map((other) => ({ ...other, radius: other.radius + tintOf(other, bubble) }));
    const fits = (side: Side, away: number): boolean => {
      const [left, top, right, bottom] = boxOf({ side, width: wide, away }, radius);
      const box: Box = [x + left, y + top, x + right, y + bottom];
      if (box[0] < 2 || box[1] < 2 || box[2] > width - 2 || box[3] > height - 2) return false;
      if (taken.some((other) => meets(box, other)) || leaders.some(([from, to]) => crosses(from, to, [box[0] - SPACE, box[1] - SPACE, box[2] + SPACE, box[3] + SPACE]))) return false;
      if (others.some((other) => isOn(box, other, CLEAR))) return false;
      if (!away) return !others.some((other) => isAbove(box, other));
      const [from, to] = leaderOf({ side, width: wide, away }, radius).map(([right, down]) => [x + right, y + down]) as [Side, Side];
      if (taken.some((other) => crosses(from, to, other)) || leaders.some((other) => areCrossing([from, to], other)) || others.some((other) => isNear(from, to, other))) return false;
      return leaders.push([from, to]) > 0;
    };
    const found = [...SIDES.map((side) => [side, 0] as const), ...LEADERS.flatMap((away) => LEADER_SIDES.map((side) => [side, away] as const))].find(([side, away]) => fits(side, away));
    if (!found) {
      isMissing ||= !textsOf(bubble, look.sign(bubble), radius).texts.includes(share(bubble.node.share));
      continue;
    }
    const [side, away] = found;
    const [left, top, right, bottom] = boxOf({ side, width: wide, away }, radius);
    taken.push([x + left - BETWEEN, y + top - SPACE, x + right + BETWEEN, y + bottom + SPACE]);
    named.add(address);
    labels.push({ bubble, text, side, width: wide, away });
  }
  return labels;
}

/** Returns the pixels around a bubble that its tint fills, for a bubble of another cluster. */
const tintOf = ({ bubble: { node, radius: units }, radius }: Disc, { node: { cluster_id: own } }: Bubble) =>
  node.cluster_id === null || node.cluster_id === own || node.kind === "time" ? 0 : (TINT_WIDTH * radius) / units;

/** Returns whether a line meets a box, in steps of a few pixels. */
function crosses([x, y]: Side, [endX, endY]: Side, [left, top, right, bottom]: Box): boolean {
  const steps = Math.ceil(Math.hypot(endX - x, endY - y) / 4) || 1;
  return Array.from({ length: steps + 1 }, (_, step) => [x + ((endX - x) * step) / steps, y + ((endY - y) * step) / steps] as const).some(([atX, atY]) => atX > left && atX < right && atY > top && atY < bottom);
}

/** Returns whether two lines cross. */
function areCrossing(one: [Side, Side], two: [Side, Side]): boolean {
  const turn = ([x, y]: Side, [toX, toY]: Side, [atX, atY]: Side) => Math.sign((toX - x) * (atY - y) - (toY - y) * (atX - x));
  return turn(...one, two[0]) !== turn(...one, two[1]) && turn(...two, one[0]) !== turn(...two, one[1]);
}

/** Returns whether a line is near a circle. */
function isNear([x, y]: Side, [endX, endY]: Side, disc: Disc): boolean {
  const [wide, high] = [endX - x, endY - y];
  const part = Math.min(1, Math.max(0, ((disc.x - x) * wide + (disc.y - y) * high) / (wide * wide + high * high || 1)));
  return Math.hypot(x + part * wide - disc.x, y + part * high - disc.y) < disc.radius + LEADER_CLEAR;
}

/** Returns whether a box is just above or below a circle, and its middle over it, as if it named it. */
const isAbove = (box: Box, disc: Disc) => Math.abs((box[0] + box[2]) / 2 - disc.x) < disc.radius && isOn(box, disc, 3 * CLEAR);

/** Returns whether a box comes nearer to a circle than `room`. */
function isOn([left, top, right, bottom]: Box, { x, y, radius }: Disc, room: number): boolean {
  return Math.hypot(x - Math.min(Math.max(x, left), right), y - Math.min(Math.max(y, top), bottom)) < radius + room;
}
