/** A picture of the map for a person who does not have the page: title, date, figures, map, lists and legend. */
import { CHANGE_SIGNS, CHANGES, colours, isDark, mixed, textOn } from "../colours";
import { FIGURES, HEADLINE, LEGEND } from "../columns";
import type { History, Instant } from "../data";
import { brief, chainName, count, counted, cut, date, figure as figureText, isExcluded, name, notDrawn, partOf, share } from "../format";
import { ARROWS_UP_TO, arrowsOf, type Look } from "../map/brush";
import { boxOf, LABEL_PIXELS, labelsOf, leaderOf, textsOf } from "../map/labels";
import { bounds, findCovered, samples, TINT_WIDTH, type Bubble, type Scene } from "../map/scene";
import { fitted, widthOf, type Pen, type Point } from "./pen";

export const WIDTH = 1_400;
export const HEIGHT = 840;
const MARGIN = 28;
const SIDE = 300;
/** Left, top, width and height of the map. */
const TOP = 154;
export const PANEL = [MARGIN, TOP, WIDTH - 2 * MARGIN - SIDE - 28, HEIGHT - TOP - MARGIN] as const;
const COLUMN = WIDTH - MARGIN - SIDE;
const MOST_LISTED = 8;

/** What a picture shows. `before` is the instant that it is compared with, or empty. */
export type Subject = { history: History; instant: Instant; scene: Scene; look: Look; finding: [string, string]; before: string; colourOf: (cluster: number) => string };

/** Draws the complete picture. */
export function drawSheet(pen: Pen, subject: Subject): void {
  drawAround(pen, subject, scaleOf(subject.scene));
  drawMap(pen, subject.scene, subject.look);
}

/** Draws everything but the map. `scale` is pixels per unit of the map, or null if it changes. */
export function drawAround(pen: Pen, subject: Subject, scale: number | null): void {
  pen.box(0, 0, WIDTH, HEIGHT, isDark.value ? "#0f1215" : "#ffffff");
  pen.box(...PANEL, colours.value.ground === "#fbfbf9" ? "#f4f5f6" : "#171b20", 12);
  drawTitle(pen, subject);
  drawLegend(pen, subject, scale, drawLargest(pen, subject, drawClusters(pen, subject, PANEL[1] + 12)));
}

/** The project's mark, as in icon.svg, 20 pixels wide. */
function drawMark(pen: Pen, [x, y]: Point): void {
  for (const [across, down, radius, fill] of MARK) pen.circle([x + across, y + down], radius, { fill });
}

const MARK = [[6.9, 8.1, 5, "#0072b2"], [15, 5, 2.8, "#e69f00"], [13.1, 15, 3.75, "#009e73"]] as const;

function drawTitle(pen: Pen, { history: of, instant, scene, finding, before }: Subject): void {
  const { ink, quiet, grid } = colours.value;
  const title = fitted(cut(of.name || of.symbol || brief(of.address), 120), 560, 30, true);
  pen.text([MARGIN, 56], title, { size: 30, colour: ink, bold: true });
  const symbol = of.name && of.symbol ? fitted(cut(of.symbol, 30), 160, 21) : "";
  pen.text([MARGIN + widthOf(title, 30, true) + 10, 56], symbol, { size: 21, colour: quiet });
  const soft = { size: 15, colour: quiet };
  const late = instant.days_after_data && of.dataEnd ? `, from data until ${date(of.dataEnd)}` : "";
  const compared = before && `, compared with ${date(before)}`;
  pen.text([MARGIN, 80], fitted(`${chainName(of.chain)} · ${date(instant.at)} UTC${compared}${late}`, 640, 15), soft);
  const drawn = scene.bubbles.filter(({ node }) => node.kind === "top_holder");
  const held = drawn.reduce((sum, { node }) => sum + (node.share ?? 0), 0);
  const by = drawn.some(({ node }) => node.owner) ? "; wallets of one owner are one bubble" : "";
  const listed = scene.map.nodes.filter(({ kind }) => kind === "top_holder").length;
  const all = by || drawn.length >= listed ? counted(drawn.length, "holder") : `${drawn.length} of the ${listed} largest holders`;
  pen.text([MARGIN, 102], drawn.length ? `${all} drawn, with ${share(held)} of the supply${by}` : `None of ${counted(listed, "holder")} drawn`, soft);
  drawMark(pen, [MARGIN, 117]);
  const room = WIDTH - 2 * MARGIN - 30;
  const said = finding.join(" ").trim();
  const size = Math.max(13, Math.min(17, (17 * room) / widthOf(said, 17, true)));
  let bold = finding[0].split(" ").length;
  const lines = broken(said || "Holderlake", room + 1, size, true).slice(0, 2);
  lines.forEach((line, at) => {
    const words = line.split(" ");
    const [first, rest] = [words.slice(0, bold).join(" "), words.slice(bold).join(" ")];
    bold = Math.max(0, bold - words.length);
    const base = lines.length > 1 ? 127 + 18 * at : 132;
    pen.text([MARGIN + 30, base], first, { size, colour: ink, bold: true });
    pen.text([MARGIN + 30 + (first ? widthOf(`${first} `, size, true) : 0), base], rest, { size, colour: quiet });
  });
  pen.text([MARGIN, HEIGHT - 9], fitted(cut(of.address, 200), PANEL[2], 12), { size: 12, colour: quiet });
  const step = 140;
  HEADLINE.forEach((figure, place) => {
    const left = WIDTH - MARGIN - step * (HEADLINE.length - place) + 24;
    const part = partOf(figure, instant[figure]);
    pen.text([left, 42], FIGURES[figure].short, { size: 13.5, colour: quiet });
    pen.text([left, 71], figureText(figure, instant[figure]), { size: 25, colour: ink, bold: true });
    if (part === null) return;
    pen.box(left, 82, step - 24, 4, grid, 2);
    pen.box(left, 82, (step - 24) * part, 4, quiet, 2);
  });
}

/** A heading of the side column. Returns the base line of the next row. */
function heading(pen: Pen, at: number, text: string, more = ""): number {
  const { ink, quiet } = colours.value;
  pen.text([COLUMN, at], text, { size: 16, colour: ink, bold: true });
  pen.text([WIDTH - MARGIN, at], more, { size: 13.5, colour: quiet, align: "end" });
  return at + 26;
}

function row(pen: Pen, at: number, colour: string, text: string, value: string, bold = false): number {
  const { ink, quiet } = colours.value;
  if (colour) pen.circle([COLUMN + 7, at - 5], 6.5, { fill: colour });
  const left = colour ? 22 : 0;
  const room = SIDE - 30 - widthOf(value, 14);
  pen.text([COLUMN + left, at], fitted(text, room, 15, bold), { size: 15, colour: ink, bold });
  pen.text([WIDTH - MARGIN, at], value, { size: 14, colour: quiet, align: "end" });
  return at + 24;
}

function drawClusters(pen: Pen, { scene, look, colourOf }: Subject, top: number): number {
  const { clusters } = scene.map;
  const together = clusters.reduce((sum, one) => sum + one.share, 0);
  let at = heading(pen, top, "Clusters", clusters.length ? `${count(clusters.length)}, ${share(together)} of the supply` : "");
  if (!clusters.length) pen.text([COLUMN, at], "None: nothing links the drawn holders.", { size: 14, colour: colours.value.quiet });
  for (const one of clusters.slice(0, MOST_LISTED)) {
    at = row(pen, at, look.tinted ? colourOf(one.cluster_id) : "", `${one.cluster_id}  ${share(one.share)}`, counted(one.holder_count, "holder"), true);
  }
  if (clusters.length > MOST_LISTED) {
    pen.text([COLUMN + 22, at], `and ${clusters.length - MOST_LISTED} smaller`, { size: 14, colour: colours.value.quiet });
    at += 24;
  }
  return at + (clusters.length ? 16 : 40);
}

const LEGEND_HEIGHT = 278;

function drawLargest(pen: Pen, { scene, look }: Subject, top: number): number {
  const legend = HEIGHT - MARGIN - LEGEND_HEIGHT;
  const listed = scene.bubbles.filter(({ node }) => node.kind === "top_holder").sort((one, two) => (two.node.share ?? 0) - (one.node.share ?? 0));
  const rows = Math.min(listed.length, 10, Math.floor((legend - top - 40) / 24));
  if (rows < 1) return legend;
  let at = heading(pen, top, "Largest drawn holders");
  for (const bubble of listed.slice(0, rows)) at = row(pen, at, look.fill(bubble), name(bubble.node), share(bubble.node.share));
  return legend;
}

function drawLegend(pen: Pen, { scene, look }: Subject, scale: number | null, top: number): void {
  const { quiet, lone, ground } = colours.value;
  let at = heading(pen, top + 16, "How to read it", "Holderlake");
  const note = (text: string, mark: (centre: Point) => void) => {
    mark([COLUMN + 9, at - 5]);
    pen.text([COLUMN + 26, at], text, { size: 14, colour: quiet });
    at += 24;
  };
  pen.text([COLUMN, at], LEGEND.size, { size: 14, colour: quiet });
  at += 30;
  let across = COLUMN;
  for (const sample of scale === null ? [] : samples(scale)) {
    pen.circle([across + sample.radius, at - 5], sample.radius, { fill: lone });
    pen.text([across + 2 * sample.radius + 6, at], share(sample.share), { size: 14, colour: quiet });
    across += 2 * sample.radius + 22 + widthOf(share(sample.share), 14);
  }
  at += across > COLUMN ? 30 : 0;
  const has = (what: (bubble: Bubble) => boolean) => scene.bubbles.some(what);
  if (!look.tinted) {
    across = COLUMN + 2;
    for (const kind of ["entered", "grew", "shrank"] as const) {
      const text = `${kind} ${CHANGE_SIGNS[kind]}`;
      pen.circle([across + 7, at - 5], 6.5, { fill: CHANGES[kind] });
      pen.text([across + 20, at], text, { size: 14, colour: quiet });
      across += 38 + widthOf(text, 14);
    }
    at += 24;
    note("as before", (centre) => pen.circle(centre, 6.5, { fill: lone }));
  } else if (has(({ node }) => node.kind === "top_holder" && node.cluster_id === null)) note(LEGEND.alone, (centre) => pen.circle(centre, 6.5, { fill: lone }));
  if (has(({ node }) => node.kind === "magic")) note(LEGEND.magic, (centre) => pen.circle(centre, 6, { fill: ground, stroke: quiet, width: 2.2 }));
  if (has(({ node }) => node.kind === "time")) note(LEGEND.time, (centre) => pen.shape(diamond(centre, 7), { fill: ground, stroke: quiet, width: 1.6 }));
  if (scene.lines.length) note(LEGEND.line, ([x, y]) => {
    pen.line([x - 9, y], [x + 4, y], quiet, 1.5);
    pen.shape([[x + 10, y], [x + 3, y - 4], [x + 3, y + 4]], { fill: quiet });
  });
  const absent = notDrawn(scene.map.nodes, scene.map.nodes.filter((node) => isExcluded(node) && !scene.byId.has(node.id)));
  const weak = [scene.more.length && counted(scene.more.length, "weaker line"), scene.hidden && counted(scene.hidden, "smaller member")].filter(Boolean).join(", ");
  const texts = [absent, weak].filter(Boolean).flatMap((text) => broken(`Not drawn: ${text}`, SIDE, 14));
  texts.forEach((text, line) => pen.text([COLUMN, at + 21 * line], text, { size: 14, colour: quiet }));
}

/** Breaks a text into lines of a width. */
function broken(text: string, room: number, size: number, bold = false): string[] {
  const lines: string[] = [];
  for (const part of text.split(" ")) {
    const longer = lines.length ? `${lines.at(-1)} ${part}` : part;
    if (lines.length && widthOf(longer, size, bold) <= room) lines[lines.length - 1] = longer;
    else lines.push(part);
  }
  return lines;
}

const diamond = ([x, y]: Point, radius: number): Point[] => [[x, y - radius], [x + radius, y], [x, y + radius], [x - radius, y]];

/** Returns the pixels per unit of the map. */
function scaleOf(scene: Scene): number {
  const [left, top, right, bottom] = bounds(scene.bubbles);
  return Math.min(6, 0.94 * Math.min(PANEL[2] / (right - left), PANEL[3] / (bottom - top)));
}

export function drawMap(pen: Pen, scene: Scene, look: Look): void {
  const [left, top, right, bottom] = bounds(scene.bubbles);
  const scale = scaleOf(scene);
  const place = ({ x, y }: { x: number; y: number }): Point => [
    PANEL[0] + PANEL[2] / 2 + (x - (left + right) / 2) * scale,
    PANEL[1] + PANEL[3] / 2 + (y - (top + bottom) / 2) * scale,
  ];
  const { ground, tint, quiet, edge, ink, lone, rim } = colours.value;
  const isLit = (bubble: Bubble) => !look.chosen || look.chosen.has(bubble.id);
  if (look.tinted) {
    for (const bubble of scene.bubbles) {
      if (bubble.node.cluster_id === null || bubble.node.kind === "time" || !isLit(bubble)) continue;
      pen.circle(place(bubble), (bubble.radius + TINT_WIDTH) * scale, { fill: mixed(ground, look.fill(bubble), tint) });
    }
  }
  const few = scene.lines.length <= ARROWS_UP_TO;
  for (const line of look.chosen ? [...scene.lines, ...scene.more] : scene.lines) {
    const chosen = look.chosen !== null && isLit(line.from) && isLit(line.to);
    const [from, to] = [place(line.from), place(line.to)];
    const colour = chosen ? look.line : quiet;
    pen.line(from, to, colour, chosen ? 1.6 : 1, chosen ? 1 : (few ? 0.55 : 0.2) * (look.chosen ? 0.4 : 1));
    if (!few || (look.chosen && !chosen)) continue;
    const round = ([x, y]: Point, { radius }: Bubble) => ({ x, y, radius: radius * scale });
    findCovered([line], scene.bubbles);
    for (const head of arrowsOf(line, round(from, line.from), round(to, line.to), 5)) pen.shape(head, { fill: colour });
  }
  for (const bubble of scene.bubbles) {
    const { node } = bubble;
    const at = place(bubble);
    const radius = bubble.radius * scale;
    const fill = isLit(bubble) ? look.fill(bubble) : mixed(ground, look.fill(bubble), 0.3);
    const dim = isLit(bubble) ? quiet : mixed(ground, quiet, 0.35);
    if (node.kind === "time") pen.shape(diamond(at, radius), { fill: ground, stroke: dim, width: 1.5 });
    else if (node.kind === "magic") pen.circle(at, radius, { fill: ground, stroke: fill, width: Math.min(radius * 0.4, 2.5) }, name(node));
    else if (isExcluded(node)) pen.circle(at, radius, { fill: ground, stroke: fill === lone ? rim : fill, width: 2 }, `${name(node)}, ${share(node.share)}`);
    else pen.circle(at, radius, { fill, stroke: fill === lone ? rim : edge, width: 1 }, `${name(node)}, ${share(node.share)}`);
    if (bubble.id === look.ringed) pen.circle(at, radius + 4, { stroke: ink, width: 2.5 });
    if (!isLit(bubble)) continue;
    const sign = look.sign(bubble);
    const { texts, size } = textsOf(bubble, sign, radius);
    texts.forEach((text, line) =>
      pen.text([at[0], at[1] + (line - (texts.length - 1) / 2) * size * 1.25 + size * 0.35], fitted(text, radius * 1.8, size, text === sign), { size, colour: textOn(isExcluded(node) ? ground : fill), bold: text === sign, align: "middle" }),
    );
  }
  const discs = scene.bubbles.map((bubble) => {
    const [x, y] = place(bubble);
    return { bubble, x: x - PANEL[0], y: y - PANEL[1], radius: bubble.radius * scale };
  });
  for (const { bubble, text, ...label } of labelsOf(discs, [PANEL[2], PANEL[3]], [], look, (name) => widthOf(name, LABEL_PIXELS))) {
    const [[x, y], [left, top, right, bottom]] = [place(bubble), boxOf(label, bubble.radius * scale)];
    const [from, to] = leaderOf(label, bubble.radius * scale).map(([across, down]): Point => [x + across, y + down]) as [Point, Point];
    if (label.away) pen.line(from, to, quiet, 1);
    pen.text([x + (left + right) / 2, y + (top + bottom) / 2 + LABEL_PIXELS * 0.35], text, { size: LABEL_PIXELS, colour: isLit(bubble) ? ink : quiet, align: "middle" });
  }
}
