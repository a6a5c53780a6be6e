/** Draws a map on two canvases: links below, bubbles above. Animates changes; pans and zooms.
 *
 * It uses Canvas 2D, which is as fast as WebGL with a graphics card, and many times faster without one.
 */
import { select } from "d3-selection";
import { zoom, zoomIdentity, type ZoomTransform } from "d3-zoom";
import { isPrinted } from "../colours";
import { widthOf } from "../picture/pen";
import { ARROWS_UP_TO, forgetFont, MANY_CHOSEN, type Look, PLAIN, paintBubble, paintChosenLines, paintLabel, paintLines, paintText, paintTints, type Shape } from "./brush";
import { boxOf, LABEL_PIXELS, labelsOf, leaderOf, type Box, type Label } from "./labels";
import { bounds, findCovered, isNarrow, type Bubble, type Line, type Scene } from "./scene";

type Tuple = [number, number, number, number];
type Drawn = Shape & { from: Tuple; to: Tuple };

/** With more lines than this, lines are redrawn only after a movement has ended. */
const MANY_LINES = 900;
/** Lines to draw in one frame while they are hidden. */
const LINES_AT_ONCE = 1_000;
/** Opacity of bubbles that are not highlighted. */
const DIMMED = 0.35;
const SETTLED_MILLISECONDS = 140;
/** How long dots move along highlighted lines. */
const FLOW_MILLISECONDS = 6_000;
const FLOW_PIXELS_A_SECOND = 40;
const MOST_PIXELS = 2;
/** Width and height of the corner with the buttons. */
const BUTTONS = [46, 122] as const;

export class Stage {
  scene: Scene | null = null;
  onZoom: () => void = () => undefined;
  /** Duration of a movement through time. */
  pace = 550;
  private look = PLAIN;
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
  private bubblesStale = true;
  private labels: Label[] = [];
  /** Where bubbles were dragged to, by id. */
  private readonly dragged = new Map<string, [number, number]>();
  private dragging: Bubble | null = null;
  /** Until when dots move along highlighted lines. */
  private flowing = 0;
  /** Whether the names have to be placed again, which waits until the map has settled. */
  private labelsStale = true;
  private fitting = true;
  private box = bounds([]);
  /** The movement of the camera to the box of the next map. */
  private flight: { from: ZoomTransform; to: ZoomTransform } | null = null;
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
      if (sourceEvent) this.land();
      this.cameraMoved();
    });
    this.zoomed.filter((event: MouseEvent) => (!event.ctrlKey || event.type === "wheel") && !event.button && !(event.type === "mousedown" && this.bubbleAt(event.offsetX, event.offsetY)));
    this.zoomed.on("start", () => clearTimeout(this.settled));
    this.zoomed.on("end", () => {
      clearTimeout(this.settled);
      this.settled = setTimeout(() => this.cameraRests(), SETTLED_MILLISECONDS);
    });
    select(above).call(this.zoomed).on("dblclick.zoom", null);
    new ResizeObserver(() => this.resize()).observe(above);
    Object.assign(above, { bubbles: () => this.places(), labels: () => this.named() }); // for tests
  }

  /** The canvases, the lowest first. */
  get layers(): HTMLCanvasElement[] {
    return [this.below, this.above];
  }

  /** Changes to another map. */
  show(scene: Scene, isFirst: boolean): void {
    this.scene = scene;
    if (isFirst) {
      this.drawn.clear();
      this.dragged.clear();
      this.fitting = true;
    }
    for (const bubble of scene.bubbles) [bubble.x, bubble.y] = this.dragged.get(bubble.id) ?? bubble.home;
    this.forgetCovered();
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
    const isCalm = this.calm.matches;
    if (isFirst || isCalm) this.refit();
    else if (this.fitting) this.fly();
    this.moving = isCalm || isFirst ? -Infinity : performance.now();
    if (scene.lines.length > MANY_LINES) this.below.style.opacity = "0";
    this.changed();
  }

  setLook(look: Look): void {
    if (look.colouring !== this.look.colouring) this.linksStale = true;
    this.look = look;
    this.flowing = look.chosen && !this.calm.matches ? performance.now() + FLOW_MILLISECONDS : 0;
    this.bubblesStale = this.labelsStale = true;
    this.below.classList.toggle("back", look.chosen !== null);
    this.wake();
  }

  /** Redraws everything, for example after a change of colours. */
  changed(): void {
    this.linksStale = this.bubblesStale = this.labelsStale = true;
    this.linesPainted = 0;
    this.wake();
  }

  /** Redraws everything at once: while a page is printed there are no frames. */
  repaint(): void {
    this.changed();
    this.paint(performance.now());
  }

  /** Shows all bubbles, those that were dragged at their own places again. */
  fit(): void {
    this.fitting = true;
    for (const id of this.dragged.keys()) this.moveTo(id, this.scene?.byId.get(id)?.home ?? [0, 0]);
    this.dragged.clear();
    this.refit();
  }

  /** Begins to drag the bubble at a point of the canvas; returns whether there is one. */
  grab(x: number, y: number): boolean {
    this.dragging = this.bubbleAt(x, y);
    return this.dragging !== null;
  }

  /** Moves the dragged bubble to a point of the canvas. */
  drag(x: number, y: number): void {
    if (!this.dragging) return;
    const at = this.camera.invert([x, y]);
    this.dragged.set(this.dragging.id, at);
    this.moveTo(this.dragging.id, at);
  }

  drop(): void {
    this.dragging = null;
  }

  private moveTo(id: string, [x, y]: readonly [number, number]): void {
    for (const one of [this.scene?.byId.get(id), this.drawn.get(id)]) if (one) Object.assign(one, { x, y, ...("to" in one && { to: [x, y, one.to[2], one.to[3]] }) });
    this.forgetCovered();
    this.changed();
  }

  private forgetCovered(): void {
    for (const line of [...(this.scene?.lines ?? []), ...(this.scene?.more ?? [])]) delete line.covered;
  }

  /** Fits the camera to the visible map, unless someone moved it. */
  private refit(): void {
    this.flight = null;
    if (!this.scene || !this.fitting) return;
    this.box = bounds(this.scene.bubbles);
    if (this.width > 1) select(this.above).call(this.zoomed.transform, this.fitted());
  }

  /** Lets the camera follow the movement to the visible map. */
  private fly(): void {
    this.box = bounds(this.scene?.bubbles ?? []);
    const to = this.fitted();
    const { x, y, k } = this.camera;
    this.flight = to.x === x && to.y === y && to.k === k ? null : { from: this.camera, to };
  }

  /** Ends the movement of the camera: someone moves it. */
  private land(): void {
    this.fitting = false;
    this.flight = null;
  }

  private fitted(): ZoomTransform {
    const [left, top, right, bottom] = this.box;
    const scale = Math.min(6, 0.94 * Math.min(this.width / (right - left), this.height / (bottom - top)));
    return zoomIdentity
      .translate(this.width / 2, this.height / 2)
      .scale(scale)
      .translate(-(left + right) / 2, -(top + bottom) / 2);
  }

  zoomBy(factor: number): void {
    this.land();
    select(this.above).call(this.zoomed.scaleBy, factor);
  }

  panBy(x: number, y: number): void {
    this.land();
    select(this.above).call(this.zoomed.translateBy, x / this.camera.k, y / this.camera.k);
  }

  /** Pans to a bubble that is outside the visible area. */
  reveal(id: string): void {
    const bubble = this.scene?.byId.get(id);
    if (!bubble) return;
    const [x, y] = this.camera.apply([bubble.x, bubble.y]);
    if (x > 20 && y > 20 && x < this.width - 20 && y < this.height - 20) return;
    this.land();
    select(this.above).call(this.zoomed.translateTo, bubble.x, bubble.y);
  }

  /** Returns the top and the bottom of some bubbles on the canvas. */
  extent(ids: ReadonlySet<string>): [number, number] {
    const found = this.places().filter((one) => ids.has(one.id));
    return [Math.min(...found.map((one) => one.y - one.radius)), Math.max(...found.map((one) => one.y + one.radius))];
  }

  /** Returns the box of a bubble on the canvas. */
  boxOf({ x, y, radius }: Bubble): Box {
    const [left, top, seen] = [...this.camera.apply([x, y]), radius * this.camera.k] as [number, number, number];
    return [left - seen, top - seen, left + seen, top + seen];
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
    const { lines = [], more = [] } = this.scene ?? {};
    for (const line of this.look.chosen ? [...lines, ...more] : lines) {
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
    const { chosen, ringed, path } = this.look;
    if (path) return path.some((id, step) => step > 0 && [id, path[step - 1]].every((one) => one === line.from.id || one === line.to.id));
    if (ringed) return line.from.id === ringed || line.to.id === ringed;
    return chosen !== null && chosen.has(line.from.id) && chosen.has(line.to.id);
  }

  /** Pixels per unit of the map. */
  get zoom(): number {
    return this.camera.k;
  }

  private places(): { id: string; x: number; y: number; radius: number; world: [number, number, number]; fill: string; lit: boolean }[] {
    const { fill, chosen } = this.look;
    return (this.scene?.bubbles ?? []).map((bubble) => {
      const { id, x, y, radius } = bubble;
      const [left, top] = this.camera.apply([x, y]);
      return { id, x: left, y: top, radius: radius * this.camera.k, world: [x, y, radius], fill: fill(bubble), lit: chosen?.has(id) ?? true };
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
    forgetFont();
    this.zoomed.extent([[0, 0], [this.width, this.height]]);
    this.refit();
    this.changed();
    if (this.scene) this.paint(performance.now());
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
    this.bubblesStale = this.labelsStale = true;
    if (this.linksCamera !== this.camera) this.linksStale = true;
    this.wake();
  }

  private wake(): void {
    if (this.scene && !this.frame) this.frame = requestAnimationFrame((now) => this.paint(now));
  }

  private paint(now: number): void {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const part = Math.min(1, (now - this.moving) / this.pace);
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
    if (this.labelsStale && !this.moving) this.placeLabels();
    const isFlowing = this.flowing > 0;
    if (now >= this.flowing) this.flowing = 0;
    if (this.bubblesStale || wasMoving || isFlowing) this.paintBubbles(now);
    this.bubblesStale = false;
    if (this.flowing) this.wake();
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
    const { flight } = this;
    if (flight) {
      const [x, y, k] = (["x", "y", "k"] as const).map((axis) => flight.from[axis] + (flight.to[axis] - flight.from[axis]) * eased) as [number, number, number];
      select(this.above).call(this.zoomed.transform, zoomIdentity.translate(x, y).scale(k));
    }
    if (part < 1) return;
    this.moving = 0;
    this.flight = null;
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
    if (this.linesPainted === 0) paintTints(context, this.drawn, lines, this.look);
    if (lines.length <= ARROWS_UP_TO) findCovered(lines, this.scene?.bubbles ?? []);
    const end = Math.min(lines.length, this.linesPainted + most);
    paintLines(context, this.drawn, lines.slice(this.linesPainted, end), lines.length, this.camera.k, this.width);
    this.linesPainted = end === lines.length ? 0 : end;
    return end < lines.length;
  }

  /** Paints tints, lines and bubbles of the highlight over the rest. */
  private paintBubbles(now: number): void {
    const context = this.top;
    this.prepare(context);
    const { chosen } = this.look;
    const { k } = this.camera;
    if (isPrinted.peek()) {
      const lines = this.scene?.lines ?? [];
      paintTints(context, this.drawn, lines, this.look);
      paintLines(context, this.drawn, lines, lines.length, k, this.width);
    }
    if (chosen) {
      const lines = [...(this.scene?.lines ?? []), ...(this.scene?.more ?? [])].filter((line) => this.isHighlighted(line));
      if (!lines.length || lines.length > MANY_CHOSEN) this.flowing = 0;
      findCovered(lines, this.scene?.bubbles ?? []);
      paintTints(context, new Map([...this.drawn].filter(([id]) => chosen.has(id))), lines, this.look);
      paintChosenLines(context, this.drawn, lines, this.look, k, this.width, this.flowing ? (now / 1_000) * FLOW_PIXELS_A_SECOND : 0);
    }
    const isDimmed = ({ bubble }: Drawn) => chosen !== null && !chosen.has(bubble.id);
    const paint = (one: Drawn) => {
      context.globalAlpha = one.alpha * (isDimmed(one) ? DIMMED : 1);
      paintBubble(context, one, this.look, k);
    };
    const ringed = this.drawn.get(this.look.ringed);
    for (const one of this.drawn.values()) if (one !== ringed) paint(one);
    if (ringed) paint(ringed); // its ring covers its neighbours
    context.globalAlpha = 1;
    for (const one of this.drawn.values()) if (one.alpha > 0.6) paintText(context, one, this.look, k, isDimmed(one));
    for (const label of this.labels) {
      const one = this.drawn.get(label.bubble.id);
      if (one && one.alpha > 0.6) paintLabel(context, one, label, k, isDimmed(one));
    }
  }

  /** The names next to bubbles, with their boxes and lines in pixels. */
  private named(): { id: string; text: string; box: number[]; leader: number[] | null }[] {
    const at = new Map(this.places().map((one) => [one.id, one]));
    return this.labels.flatMap((label) => {
      const one = at.get(label.bubble.id);
      if (!one) return [];
      const shifted = (points: number[]) => points.map((part, axis) => part + (axis % 2 ? one.y : one.x));
      return { id: one.id, text: label.text, box: shifted(boxOf(label, one.radius)), leader: label.away ? shifted(leaderOf(label, one.radius).flat()) : null };
    });
  }

  private placeLabels(): void {
    this.labelsStale = false;
    this.labels = labelsOf(this.places().map((one) => ({ ...one, bubble: this.scene?.byId.get(one.id) as Bubble })), [this.width, this.height], isNarrow.matches ? [] : [[this.width - BUTTONS[0], 0, this.width, BUTTONS[1]]], this.look, (text) => widthOf(text, LABEL_PIXELS));
  }
}
