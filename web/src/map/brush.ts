/** Draws the parts of a map on a canvas: tints of clusters, lines with arrows, bubbles with their texts. */
import { colours, mixed, textOn } from "../colours";
import { boxOf, LABEL_PIXELS, leaderOf, textsOf, type Label } from "./labels";
import { isExcluded } from "../format";
import { TINT_WIDTH, type Bubble, type Line } from "./scene";

/** The look of bubbles, which follows clusters, comparison and selection. */
export type Look = {
  fill: (bubble: Bubble) => string;
  /** Text in a bubble that is large enough, for example the number of its cluster. */
  sign: (bubble: Bubble) => string;
  /** Whether clusters are tinted. */
  tinted: boolean;
  /** Colour of the highlighted lines. */
  line: string;
  /** Ids of the highlighted bubbles; all others are dimmed. Null: no highlight. */
  chosen: Set<string> | null;
  /** Id of the bubble with a ring. */
  ringed: string;
  /** Ids along the highlighted path, if there is one. */
  path: string[] | null;
  /** What the colours depend on: the ground with tints is painted again only if it changes. */
  colouring: unknown;
};

export const PLAIN: Look = { fill: () => "#888888", sign: () => "", tinted: false, line: "#888888", chosen: null, ringed: "", path: null, colouring: null };

/** A bubble at one moment of an animation. */
export type Shape = { bubble: Bubble; x: number; y: number; radius: number; alpha: number };
type Shapes = ReadonlyMap<string, Shape>;

/** With more lines, only those of the selection have arrows. */
export const ARROWS_UP_TO = 700;
/** Lines of a map that is narrower, in pixels, are thinner. */
const NARROW = 500;
const thin = (pixels: number) => (pixels < NARROW ? 0.6 : 1);
/** With more highlighted lines, they are thinner. */
export const MANY_CHOSEN = 120;

/** Tints the ground around the bubbles and lines of each cluster; colour-blind people need more than a colour. */
export function paintTints(context: CanvasRenderingContext2D, shapes: Shapes, lines: Line[], look: Look): void {
  if (!look.tinted) return;
  const { ground, tint } = colours.peek();
  const rounds = new Map<number, Shape[]>();
  for (const shape of shapes.values()) {
    const { cluster_id: number, kind } = shape.bubble.node;
    if (number === null || kind === "time") continue;
    const found = rounds.get(number);
    if (found) found.push(shape);
    else rounds.set(number, [shape]);
  }
  const isSparse = lines.length <= ARROWS_UP_TO; // thousands of wide lines would tint everything
  const ties = Map.groupBy(isSparse ? lines : [], ({ from, to }) => (from.node.cluster_id === to.node.cluster_id ? from.node.cluster_id : null));
  context.lineCap = "round";
  for (const [number, members] of rounds) {
    context.fillStyle = context.strokeStyle = mixed(ground, look.fill((members[0] as Shape).bubble), tint);
    context.lineWidth = TINT_WIDTH * 2;
    context.beginPath();
    for (const { from, to } of ties.get(number) ?? []) {
      const [one, two] = [shapes.get(from.id), shapes.get(to.id)];
      if (!one || !two) continue;
      context.moveTo(one.x, one.y);
      context.lineTo(two.x, two.y);
    }
    context.stroke();
    context.beginPath();
    for (const { x, y, radius } of members) {
      context.moveTo(x + radius + TINT_WIDTH, y);
      context.arc(x, y, radius + TINT_WIDTH, 0, 2 * Math.PI);
    }
    context.fill();
  }
}

/** Draws lines; `of` is the number of all lines of the map. `zoom` is pixels per unit, `pixels` the width of the map. */
export function paintLines(context: CanvasRenderingContext2D, shapes: Shapes, lines: Line[], of: number, zoom: number, pixels: number): void {
  context.strokeStyle = context.fillStyle = colours.peek().link;
  context.lineWidth = thin(pixels) / zoom;
  const arrows = of <= ARROWS_UP_TO;
  const faint = Math.max(0.3, Math.min(1, 700 / of)); // thousands of lines would hide each other
  for (const line of lines) {
    const [from, to] = [shapes.get(line.from.id), shapes.get(line.to.id)];
    if (!from || !to) continue;
    context.globalAlpha = faint * Math.min(from.alpha, to.alpha);
    paintLine(context, line, from, to, arrows ? 5 / zoom : 0);
  }
  context.globalAlpha = 1;
}

/** Draws highlighted lines. `flow` are the pixels by which dots have moved along them, from sender to receiver; 0 for none. */
export function paintChosenLines(context: CanvasRenderingContext2D, shapes: Shapes, lines: Line[], look: Look, zoom: number, pixels: number, flow: number): void {
  context.strokeStyle = context.fillStyle = look.line;
  context.lineWidth = (thin(pixels) * (lines.length > MANY_CHOSEN ? 0.8 : 1.7)) / zoom;
  for (const line of lines) {
    const [from, to] = [shapes.get(line.from.id), shapes.get(line.to.id)];
    if (!from || !to) continue;
    paintLine(context, line, from, to, (lines.length > MANY_CHOSEN ? 4.5 : 7) / zoom);
    if (flow && line.forth) paintDots(context, from, to, flow, zoom);
    if (flow && line.back) paintDots(context, to, from, flow, zoom);
  }
}

/** Pixels between two dots that move along a line. */
const DOTS = 34;

function paintDots(context: CanvasRenderingContext2D, from: Shape, to: Shape, flow: number, zoom: number): void {
  const length = Math.hypot(to.x - from.x, to.y - from.y) * zoom;
  context.beginPath();
  for (let at = from.radius * zoom + (flow % DOTS); at < length - to.radius * zoom; at += DOTS) {
    const [x, y] = [from.x + ((to.x - from.x) * at) / length, from.y + ((to.y - from.y) * at) / length];
    context.moveTo(x + 2.4 / zoom, y);
    context.arc(x, y, 2.4 / zoom, 0, 2 * Math.PI);
  }
  context.fill();
}

function paintLine(context: CanvasRenderingContext2D, line: Line, from: Shape, to: Shape, arrow: number): void {
  context.beginPath();
  context.moveTo(from.x, from.y);
  context.lineTo(to.x, to.y);
  context.stroke();
  if (!arrow) return;
  for (const head of arrowsOf(line, from, to, arrow)) {
    context.beginPath();
    head.forEach(([x, y], at) => (at ? context.lineTo(x, y) : context.moveTo(x, y)));
    context.fill();
  }
}

/** Returns the three corners of the head of each arrow of a line: at the last place before its end where no bubble covers it, if there is one. */
export function arrowsOf({ forth, back, covered = [] }: Line, from: Round, to: Round, wide: number): [number, number][][] {
  const backwards = covered.map(([begin, end]): [number, number] => [1 - end, 1 - begin]).sort(([, one], [, two]) => two - one);
  return [forth ? arrowOf(from, to, wide, covered) : [], back ? arrowOf(to, from, wide, backwards) : []].filter((head) => head.length);
}

function arrowOf(from: Round, to: Round, wide: number, covered: [number, number][]): [number, number][] {
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  const [x, y] = [(to.x - from.x) / length, (to.y - from.y) / length];
  let tip = length - to.radius - 0.5;
  const long = Math.min(wide * 1.6, tip - from.radius);
  for (const [begin, end] of covered) if (end * length > tip - long && begin * length < tip) tip = begin * length;
  if (long < wide * 0.5 || tip - long < from.radius - 0.01) return [];
  const at = (along: number, across: number): [number, number] => [from.x + x * along - y * across, from.y + y * along + x * across];
  return [at(tip, 0), at(tip - long, wide * 0.6), at(tip - long, -wide * 0.6)];
}

type Round = { x: number; y: number; radius: number };

export function paintBubble(context: CanvasRenderingContext2D, shape: Shape, look: Look, zoom: number): void {
  const { kind } = shape.bubble.node;
  const { x, y } = shape;
  const { edge, ground, lone, quiet, rim, strong } = colours.peek();
  const radius = Math.max(shape.radius, 1.2 / zoom);
  const fill = look.fill(shape.bubble);
  context.beginPath();
  if (kind === "time") {
    context.moveTo(x, y - radius);
    context.lineTo(x + radius, y);
    context.lineTo(x, y + radius);
    context.lineTo(x - radius, y);
    context.closePath();
  } else context.arc(x, y, radius, 0, 2 * Math.PI);
  if (kind === "magic" || kind === "time") {
    context.fillStyle = ground;
    context.strokeStyle = kind === "time" ? quiet : fill;
    context.lineWidth = Math.min(radius * 0.4, (kind === "time" ? 1.4 : 2.5) / zoom);
  } else if (isExcluded(shape.bubble.node)) {
    context.fillStyle = ground;
    context.strokeStyle = fill === lone ? rim : fill;
    context.lineWidth = 2 / zoom;
  } else {
    context.fillStyle = fill;
    context.strokeStyle = fill === lone ? rim : edge;
    context.lineWidth = 1 / zoom;
  }
  context.fill();
  context.stroke();
  if (shape.bubble.id !== look.ringed) return;
  context.beginPath();
  context.arc(x, y, radius + 4 / zoom, 0, 2 * Math.PI);
  context.strokeStyle = strong;
  context.lineWidth = 2.5 / zoom;
  context.stroke();
}

let font = "";

/** Sets the font only if it changed, because parsing a font is slower than drawing a word. */
function setFont(context: CanvasRenderingContext2D, next: string): void {
  if (font !== next) context.font = font = next;
}

/** Resizing a canvas resets its font. */
export function forgetFont(): void {
  font = "";
}

/** Draws the texts of a bubble; those of a dimmed one have the colour of the page's text. */
export function paintText(context: CanvasRenderingContext2D, { bubble, x, y, radius }: Shape, look: Look, zoom: number, isDimmed: boolean): void {
  const sign = look.sign(bubble);
  const { texts, size } = textsOf(bubble, sign, radius * zoom);
  if (!texts.length) return;
  const { ground, quiet } = colours.peek();
  context.fillStyle = isDimmed ? quiet : textOn(isExcluded(bubble.node) ? ground : look.fill(bubble));
  context.textAlign = "center";
  context.textBaseline = "middle";
  const high = size / zoom;
  texts.forEach((text, at) => {
    setFont(context, `${text === sign ? 600 : 450} ${high}px system-ui, sans-serif`);
    context.fillText(text, x, y + (at - (texts.length - 1) / 2) * high * 1.25, radius * 1.8);
  });
}

/** Draws a name next to a bubble, on a half-transparent box of the background's colour, or at the end of a line that leads to it. */
export function paintLabel(context: CanvasRenderingContext2D, { x, y, radius }: Shape, label: Label, zoom: number, isDimmed: boolean): void {
  const { ground, ink, quiet } = colours.peek();
  const [left, top, right, bottom] = boxOf(label, radius * zoom).map((one) => one / zoom) as [number, number, number, number];
  context.globalAlpha = 0.72;
  context.fillStyle = ground;
  context.fillRect(x + left - 2 / zoom, y + top - 1.5 / zoom, right - left + 4 / zoom, bottom - top + 3 / zoom);
  context.globalAlpha = isDimmed ? 0.5 : 1;
  if (label.away) {
    const [from, to] = leaderOf(label, radius * zoom);
    context.strokeStyle = quiet;
    context.lineWidth = 1 / zoom;
    context.beginPath();
    context.moveTo(x + from[0] / zoom, y + from[1] / zoom);
    context.lineTo(x + to[0] / zoom, y + to[1] / zoom);
    context.stroke();
  }
  setFont(context, `450 ${LABEL_PIXELS / zoom}px system-ui, sans-serif`);
  context.fillStyle = isDimmed ? quiet : ink;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(label.text, x + (left + right) / 2, y + (top + bottom) / 2);
  context.globalAlpha = 1;
}
