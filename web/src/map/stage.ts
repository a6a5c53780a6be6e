/** Draws a map on two canvases: links below, bubbles above. Animates changes; pans and zooms.
 *
 * It uses Canvas 2D, which is as fast as WebGL with a graphics card, and many times faster without one.
 */
import { select } from "d3-selection";
import { zoom, zoomIdentity, type ZoomTransform } from "d3-zoom";
import { colours, inkOn } from "../colours";
import { cut, share } from "../format";
import { bounds, type Bubble, type Line, type Scene } from "./scene";

/** The look of bubbles, which follows clusters, comparison and selection. */
export type Look = {
  fill: (bubble: Bubble) => string;
  /** Text in a bubble that is large enough, for example the number of its cluster. */
  sign: (bubble: Bubble) => string;
  /** Ids of the highlighted bubbles; all others are dimmed. Null: no highlight. */
  chosen: Set<string> | null;
  /** Id of the bubble with a ring. */
  ringed: string;
};

type Drawn = { bubble: Bubble; x: number; y: number; radius: number; alpha: number; from: [number, number, number, number]; to: [number, number, number, number] };

const MOVE_MILLISECONDS = 550;
/** With more lines than this, lines are redrawn only after a movement has ended. */
const MANY_LINES = 900;
/** Lines to draw in one frame while they are hidden. */
const LINES_AT_ONCE = 1_000;
const ARROWS_UP_TO = 700;
const SETTLED_MILLISECONDS = 140;
const MOST_PIXELS = 2;

export class Stage {
  scene: Scene | null = null;
  onZoom: () => void = () => undefined;
  private look: Look = { fill: () => "#888888", sign: () => "", chosen: null, ringed: "" };
  private drawn = new Map<string, Drawn>();
  private camera: ZoomTransform = zoomIdentity;
  private linksCamera: ZoomTransform = zoomIdentity;
  private width = 1;
  private height = 1;
  private density = 1;
  private moving = 0;
  private frame = 0;
  private settled = 0;
  private linksStale = true;
  private linesPainted = 0;
  private font = "";
  private bubblesStale = true;
  private fitting = true;
  /** The fitted box. It does not change while the map moves through time, so that the picture stays steady. */
  private box = bounds([]);
  private readonly links: CanvasRenderingContext2D;
  private readonly top: CanvasRenderingContext2D;
  private readonly calm = matchMedia("(prefers-reduced-motion: reduce)");
  private readonly zoomed = zoom<HTMLCanvasElement, unknown>().scaleExtent([0.15, 24]);

  constructor(
    private readonly below: HTMLCanvasElement,
    private readonly above: HTMLCanvasElement,
  ) {
    this.links = below.getContext("2d") as CanvasRenderingContext2D;
    this.top = above.getContext("2d") as CanvasRenderingContext2D;
    this.zoomed.on("zoom", ({ transform, sourceEvent }: { transform: ZoomTransform; sourceEvent: Event | null }) => {
      this.camera = transform;
      if (sourceEvent) this.fitting = false;
      this.cameraMoved();
    });
    this.zoomed.on("start", () => clearTimeout(this.settled));
    this.zoomed.on("end", () => {
      clearTimeout(this.settled);
      this.settled = setTimeout(() => this.cameraRests(), SETTLED_MILLISECONDS);
    });
    select(above).call(this.zoomed).on("dblclick.zoom", null);
    new ResizeObserver(() => this.resize()).observe(above);
    Object.assign(above, { bubbles: () => this.places() }); // for tests: positions in the window
  }

  /** Changes to another map. */
  show(scene: Scene, isFirst: boolean): void {
    this.scene = scene;
    if (isFirst) {
      this.drawn.clear();
      this.fitting = true;
    }
    for (const [id, one] of this.drawn) {
      one.from = [one.x, one.y, one.radius, one.alpha];
      one.to = [one.x, one.y, one.radius * 0.5, 0];
      if (one.alpha === 0) this.drawn.delete(id);
    }
    for (const bubble of scene.bubbles) {
      const to: Drawn["to"] = [bubble.x, bubble.y, bubble.radius, 1];
      const before = this.drawn.get(bubble.id);
      const from: Drawn["from"] = before?.from ?? [bubble.x, bubble.y, isFirst ? bubble.radius : bubble.radius * 0.5, 0];
      const [x, y, radius, alpha] = from;
      this.drawn.set(bubble.id, { bubble, x, y, radius, alpha, from, to });
    }
    if (isFirst) this.fit();
    this.moving = this.calm.matches ? -Infinity : performance.now();
    if (scene.lines.length > MANY_LINES) this.below.style.opacity = "0";
    this.changed();
  }

  /** Width divided by height. */
  get aspect(): number {
    return this.width > 1 ? this.width / this.height : 1.5;
  }

  setLook(look: Look): void {
    this.look = look;
    this.bubblesStale = true;
    this.below.classList.toggle("back", look.chosen !== null);
    this.wake();
  }

  /** Redraws everything, for example after a change of colours. */
  changed(): void {
    this.linksStale = this.bubblesStale = true;
    this.linesPainted = 0;
    this.wake();
  }

  /** Shows all bubbles. */
  fit(): void {
    if (!this.scene) return;
    this.box = bounds(this.scene.bubbles);
    this.fitting = true;
    this.fitBox();
  }

  private fitBox(): void {
    if (this.width < 2) return;
    const [left, top, right, bottom] = this.box;
    const scale = Math.min(6, 0.92 * Math.min(this.width / (right - left), this.height / (bottom - top)));
    const to = zoomIdentity
      .translate(this.width / 2, this.height / 2)
      .scale(scale)
      .translate(-(left + right) / 2, -(top + bottom) / 2);
    select(this.above).call(this.zoomed.transform, to);
  }

  zoomBy(factor: number): void {
    this.fitting = false;
    select(this.above).call(this.zoomed.scaleBy, factor);
  }

  panBy(x: number, y: number): void {
    this.fitting = false;
    select(this.above).call(this.zoomed.translateBy, x / this.camera.k, y / this.camera.k);
  }

  /** Pans to a bubble that is outside the visible area. */
  reveal(id: string): void {
    const bubble = this.scene?.byId.get(id);
    if (!bubble) return;
    const [x, y] = this.camera.apply([bubble.x, bubble.y]);
    if (x > 20 && y > 20 && x < this.width - 20 && y < this.height - 20) return;
    this.fitting = false;
    select(this.above).call(this.zoomed.translateTo, bubble.x, bubble.y);
  }

  /** Returns the bubble at or near a point of the canvas. */
  bubbleAt(x: number, y: number, near = 3): Bubble | null {
    const [worldX, worldY] = this.camera.invert([x, y]);
    let best: Bubble | null = null;
    let least = near / this.camera.k;
    for (const bubble of this.scene?.bubbles ?? []) {
      const distance = Math.hypot(bubble.x - worldX, bubble.y - worldY) - bubble.radius;
      if (distance < least) [best, least] = [bubble, distance];
    }
    return best;
  }

  /** Returns the line near a point of the canvas; with a highlight, only highlighted lines. */
  lineAt(x: number, y: number): Line | null {
    const [worldX, worldY] = this.camera.invert([x, y]);
    let best: Line | null = null;
    let least = 5 / this.camera.k;
    for (const line of this.scene?.lines ?? []) {
      if (this.look.chosen && !this.isHighlighted(line)) continue;
      const { from, to } = line;
      const [width, height] = [to.x - from.x, to.y - from.y];
      const along = ((worldX - from.x) * width + (worldY - from.y) * height) / (width * width + height * height || 1);
      const part = Math.min(1, Math.max(0, along));
      const distance = Math.hypot(from.x + part * width - worldX, from.y + part * height - worldY);
      if (distance < least) [best, least] = [line, distance];
    }
    return best;
  }

  /** Returns the nearest bubble within 50 degrees of a direction; closer to the axis is better. */
  neighbour(id: string, x: number, y: number): Bubble | null {
    const here = this.scene?.byId.get(id);
    if (!here) return this.largest();
    let best: Bubble | null = null;
    let least = Infinity;
    for (const bubble of this.scene?.bubbles ?? []) {
      const [width, height] = [bubble.x - here.x, bubble.y - here.y];
      const along = width * x + height * y;
      const across = Math.abs(width * y - height * x);
      if (bubble.id === id || along <= 0 || across > along * 1.2) continue;
      if (along + across * 2 < least) [best, least] = [bubble, along + across * 2];
    }
    return best;
  }

  largest(): Bubble | null {
    return (this.scene?.bubbles ?? []).reduce<Bubble | null>((best, one) => (!best || one.radius > best.radius ? one : best), null);
  }

  private isHighlighted(line: Line): boolean {
    const { chosen, ringed } = this.look;
    if (ringed) return line.from.id === ringed || line.to.id === ringed;
    return chosen !== null && chosen.has(line.from.id) && chosen.has(line.to.id);
  }

  private places(): { id: string; x: number; y: number; radius: number }[] {
    return (this.scene?.bubbles ?? []).map(({ id, x, y, radius }) => {
      const [left, top] = this.camera.apply([x, y]);
      return { id, x: left, y: top, radius: radius * this.camera.k };
    });
  }

  private resize(): void {
    const { clientWidth, clientHeight } = this.above;
    if (!clientWidth || !clientHeight) return;
    [this.width, this.height] = [clientWidth, clientHeight];
    this.density = Math.min(MOST_PIXELS, devicePixelRatio || 1);
    for (const canvas of [this.below, this.above]) {
      canvas.width = Math.round(this.width * this.density);
      canvas.height = Math.round(this.height * this.density);
    }
    this.font = ""; // resizing a canvas resets its font
    this.zoomed.extent([[0, 0], [this.width, this.height]]);
    if (this.fitting) this.fitBox();
    this.changed();
    this.paint(performance.now());
  }

  private cameraMoved(): void {
    this.bubblesStale = true;
    this.onZoom();
    if ((this.scene?.lines.length ?? 0) > MANY_LINES) {
      const scale = this.camera.k / this.linksCamera.k;
      const [x, y] = [this.camera.x - this.linksCamera.x * scale, this.camera.y - this.linksCamera.y * scale];
      this.below.style.transform = `translate(${x}px, ${y}px) scale(${scale})`;
    } else this.linksStale = true;
    this.wake();
  }

  private cameraRests(): void {
    if (this.linksCamera === this.camera) return;
    this.linksStale = true;
    this.wake();
  }

  private wake(): void {
    if (!this.frame) this.frame = requestAnimationFrame((now) => this.paint(now));
  }

  private paint(now: number): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const part = Math.min(1, (now - this.moving) / MOVE_MILLISECONDS);
    const wasMoving = this.moving !== 0;
    if (wasMoving) this.move(Math.max(0, part));
    const many = (this.scene?.lines.length ?? 0) > MANY_LINES;
    if (this.linksStale && !(many && this.moving)) {
      const hidden = this.below.style.opacity === "0";
      if (!hidden || this.linksCamera !== this.camera) this.linesPainted = 0;
      this.linksStale = this.paintLinks(hidden ? LINES_AT_ONCE : Infinity);
      if (this.linksStale) this.wake();
      else this.below.style.opacity = "";
    }
    if (this.bubblesStale || wasMoving) this.paintBubbles();
    this.bubblesStale = false;
    if (this.moving) {
      if (!many) this.linksStale = true;
      this.wake();
    }
  }

  private move(part: number): void {
    const eased = 1 - (1 - part) ** 3;
    for (const [id, one] of this.drawn) {
      const [x, y, radius, alpha] = one.from.map((from, at) => from + ((one.to[at] as number) - from) * eased) as Drawn["to"];
      Object.assign(one, { x, y, radius, alpha });
      if (part === 1 && alpha === 0) this.drawn.delete(id);
    }
    if (part === 1) this.moving = 0;
  }

  private prepare(context: CanvasRenderingContext2D): void {
    const { x, y, k } = this.camera;
    const { density } = this;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, context.canvas.width, context.canvas.height);
    context.setTransform(k * density, 0, 0, k * density, x * density, y * density);
  }

  /** Paints the next lines; returns whether some are left. */
  private paintLinks(most: number): boolean {
    const context = this.links;
    if (this.linesPainted === 0) {
      this.prepare(context);
      this.below.style.transform = "";
      this.linksCamera = this.camera;
    }
    const lines = this.scene?.lines ?? [];
    context.strokeStyle = context.fillStyle = colours.peek().link;
    context.lineWidth = 1 / this.camera.k;
    const arrows = lines.length <= ARROWS_UP_TO;
    const faint = Math.max(0.3, Math.min(1, 700 / lines.length)); // thousands of lines would hide each other
    const end = Math.min(lines.length, this.linesPainted + most);
    for (const line of lines.slice(this.linesPainted, end)) {
      const [from, to] = [this.drawn.get(line.from.id), this.drawn.get(line.to.id)];
      if (!from || !to) continue;
      context.globalAlpha = faint * Math.min(from.alpha, to.alpha);
      context.beginPath();
      context.moveTo(from.x, from.y);
      context.lineTo(to.x, to.y);
      context.stroke();
      if (arrows && line.forth) this.arrow(context, from, to, 5);
      if (arrows && line.back) this.arrow(context, to, from, 5);
    }
    context.globalAlpha = 1;
    this.linesPainted = end === lines.length ? 0 : end;
    return end < lines.length;
  }

  private arrow(context: CanvasRenderingContext2D, from: Drawn, to: Drawn, size: number): void {
    const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
    const [x, y] = [(to.x - from.x) / length, (to.y - from.y) / length];
    const wide = size / this.camera.k;
    const [tipX, tipY] = [to.x - x * (to.radius + 0.5), to.y - y * (to.radius + 0.5)];
    const [backX, backY] = [tipX - x * wide * 1.6, tipY - y * wide * 1.6];
    context.beginPath();
    context.moveTo(tipX, tipY);
    context.lineTo(backX - y * wide * 0.6, backY + x * wide * 0.6);
    context.lineTo(backX + y * wide * 0.6, backY - x * wide * 0.6);
    context.fill();
  }

  private paintBubbles(): void {
    const context = this.top;
    this.prepare(context);
    const { chosen, ringed } = this.look;
    if (chosen) this.paintChosenLinks(context);
    for (const one of this.drawn.values()) {
      const isBright = !chosen || chosen.has(one.bubble.id);
      context.globalAlpha = one.alpha * (isBright ? 1 : 0.22);
      this.paintBubble(context, one, one.bubble.id === ringed);
    }
    context.globalAlpha = 1;
    for (const one of this.drawn.values()) {
      if (one.alpha > 0.6 && (!chosen || chosen.has(one.bubble.id))) this.paintText(context, one);
    }
  }

  private paintChosenLinks(context: CanvasRenderingContext2D): void {
    context.strokeStyle = context.fillStyle = colours.peek().quiet;
    context.lineWidth = 1.4 / this.camera.k;
    for (const line of this.scene?.lines ?? []) {
      if (!this.isHighlighted(line)) continue;
      const [from, to] = [this.drawn.get(line.from.id), this.drawn.get(line.to.id)];
      if (!from || !to) continue;
      context.beginPath();
      context.moveTo(from.x, from.y);
      context.lineTo(to.x, to.y);
      context.stroke();
      if (line.forth) this.arrow(context, from, to, 7);
      if (line.back) this.arrow(context, to, from, 7);
    }
  }

  private paintBubble(context: CanvasRenderingContext2D, one: Drawn, isRinged: boolean): void {
    const { k } = this.camera;
    const { kind } = one.bubble.node;
    const { x, y } = one;
    const radius = Math.max(one.radius, 1.2 / k);
    const fill = this.look.fill(one.bubble);
    context.beginPath();
    if (kind === "time") {
      context.moveTo(x, y - radius);
      context.lineTo(x + radius, y);
      context.lineTo(x, y + radius);
      context.lineTo(x - radius, y);
      context.closePath();
    } else context.arc(x, y, radius, 0, 2 * Math.PI);
    if (kind === "top_holder") {
      context.fillStyle = fill;
      context.fill();
      context.strokeStyle = colours.peek().edge;
      context.lineWidth = 1 / k;
    } else {
      context.fillStyle = colours.peek().ground;
      context.fill();
      context.strokeStyle = kind === "time" ? colours.peek().quiet : fill;
      context.lineWidth = Math.min(radius * 0.4, (kind === "time" ? 1.4 : 2) / k);
    }
    context.stroke();
    if (!isRinged) return;
    context.beginPath();
    context.arc(x, y, radius + 4 / k, 0, 2 * Math.PI);
    context.strokeStyle = colours.peek().strong;
    context.lineWidth = 2.5 / k;
    context.stroke();
  }

  /** Sets the font only if it changed, because parsing a font is slower than drawing a word. */
  private setFont(context: CanvasRenderingContext2D, font: string): void {
    if (this.font !== font) context.font = this.font = font;
  }

  private paintText(context: CanvasRenderingContext2D, { bubble, x, y, radius }: Drawn): void {
    const { k } = this.camera;
    const seen = radius * k;
    if (seen < 9 || bubble.node.kind !== "top_holder") return;
    const sign = this.look.sign(bubble);
    const lines = seen < 26 ? [sign] : [seen > 34 && bubble.node.label ? cut(bubble.node.label, Math.floor(seen / 4.2)) : "", share(bubble.node.share), sign];
    const texts = lines.filter(Boolean);
    if (!texts.length) return;
    context.fillStyle = inkOn(this.look.fill(bubble));
    context.textAlign = "center";
    context.textBaseline = "middle";
    const size = Math.round(Math.min(13, seen < 26 ? seen * 0.95 : 11.5) * 2) / 2 / k;
    texts.forEach((text, at) => {
      this.setFont(context, `${text === sign ? 600 : 450} ${size}px system-ui, sans-serif`);
      context.fillText(text, x, y + (at - (texts.length - 1) / 2) * size * 1.25, radius * 1.8);
    });
  }
}
