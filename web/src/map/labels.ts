/** The texts in bubbles, and the names beside them: the largest holders and all wallets with a name get one if there is room. */
import { brief, cut, share } from "../format";
import type { Look } from "./brush";
import type { Bubble } from "./scene";

/** A circle in pixels. */
type Disc = { bubble: Bubble; x: number; y: number; radius: number };
/** Directions from a bubble to its name, the best first. */
const SIDES: readonly Side[] = [[1, 0], [-1, 0], [0, 1], [0, -1], [1, 1], [1, -1], [-1, 1], [-1, -1]];
type Side = [right: number, down: number];
export type Label = { bubble: Bubble; text: string; side: Side; width: number };
/** A part of the map in pixels. */
export type Box = [left: number, top: number, right: number, bottom: number];

export const LABEL_PIXELS = 12;
/** Pixels between a bubble and its name. */
const SPACE = 4;
const LARGEST = 10;
const MOST_LABELS = 40;
const MOST_LETTERS = 26;

/** A longer name is in two lines in bubbles from this radius (pixels) on, and beside smaller ones. */
const WRAPPED_FROM = 34;
/** A long word is cut only in lines of at least this many letters. */
const CUT_FROM = 12;

/** Returns a name in two lines, or nothing if it does not fit. */
function wrapped(text: string, fitting: number): string[] {
  const space = text.lastIndexOf(" ", fitting);
  if (space > 0 && text.length - space - 1 <= fitting) return [text.slice(0, space), text.slice(space + 1)];
  return fitting >= CUT_FROM ? [cut(text, fitting)] : [];
}

/** The texts of a bubble that is `seen` pixels in radius, from top to bottom, their size in pixels, and whether its name is one. */
export function textsOf({ node }: Bubble, sign: string, seen: number): { texts: string[]; size: number; isNamed: boolean } {
  const size = Math.round((seen < 26 ? Math.min(13, seen * 0.95) : Math.min(22, Math.max(11.5, seen / 6))) * 2) / 2;
  if (seen < 9 || node.kind === "time" || node.kind === "magic") return { texts: [], size, isNamed: false };
  const fitting = Math.floor((seen * 2.9) / size);
  const whole = node.label ? cut(node.label, 60) : brief(node.address);
  const names = whole.length <= fitting ? [whole] : node.label && seen > WRAPPED_FROM ? wrapped(whole, fitting) : [];
  const mark = sign === String(node.cluster_id) ? `cluster ${sign}` : sign;
  return { texts: (seen < 26 ? [sign] : [...names, share(node.share), mark]).filter(Boolean), size, isNamed: seen >= 26 && names.length > 0 };
}

/** Returns the middle of a label, relative to the middle of its bubble, in pixels. */
export function middleOf({ side, width }: Pick<Label, "side" | "width">, radius: number): [number, number] {
  const [right, down] = side;
  const away = (radius + SPACE) * (right && down ? Math.SQRT1_2 : 1);
  return [right * (away + width / 2), down * (away + LABEL_PIXELS / 2)];
}

/** Returns the labels that overlap no holder and no other label, the largest holders first; they leave `covered` parts free, and rings and
 * diamonds if they can. An exchange has one label for all of its windows of time. */
export function labelsOf(discs: Disc[], [width, height]: [number, number], covered: Box[], look: Look, widthOf: (text: string) => number): Label[] {
  const ordered = discs.filter(({ bubble }) => bubble.node.kind !== "time").sort((one, two) => (two.bubble.node.share ?? 0) - (one.bubble.node.share ?? 0));
  const wanted = ordered.filter(({ bubble: { node } }, place) => node.label || (place < LARGEST && node.share !== null));
  const windows = discs.filter(({ bubble: { node } }) => node.kind === "time" && node.label);
  const taken = [...covered];
  const holders = discs.filter(({ bubble: { node } }) => node.kind !== "time" && node.kind !== "magic");
  const named = new Set<string>();
  const labels: Label[] = [];
  for (const disc of [...wanted, ...windows]) {
    const { bubble, x, y, radius } = disc;
    const { address, label } = bubble.node;
    if (labels.length === MOST_LABELS) break;
    if (named.has(address) || textsOf(bubble, look.sign(bubble), radius).isNamed) continue;
    const text = label ? cut(label, MOST_LETTERS) : brief(address);
    const wide = widthOf(text);
    const tries = [discs, holders].flatMap((obstacles) => SIDES.map((side) => ({ side, obstacles })));
    for (const { side, obstacles } of tries) {
      const [right, down] = middleOf({ side, width: wide }, radius);
      const box: Box = [x + right - wide / 2, y + down - LABEL_PIXELS / 2, x + right + wide / 2, y + down + LABEL_PIXELS / 2];
      if (box[0] < 2 || box[1] < 2 || box[2] > width - 2 || box[3] > height - 2) continue;
      if (taken.some((other) => box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1])) continue;
      if (obstacles.some((other) => other !== disc && isOn(box, other))) continue;
      taken.push(box);
      named.add(address);
      labels.push({ bubble, text, side, width: wide });
      break;
    }
  }
  return labels;
}

/** Returns whether a box and a circle overlap. */
function isOn([left, top, right, bottom]: Box, { x, y, radius }: Disc): boolean {
  return Math.hypot(x - Math.min(Math.max(x, left), right), y - Math.min(Math.max(y, top), bottom)) < radius + 1;
}
