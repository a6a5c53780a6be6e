/** The bubble map: canvas, pointer and keyboard controls, and tooltip. */
import { computed, effect, signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { CHANGE_SIGNS, CHANGES, clusterColours, colours, forgetColours, isDark, isPrinted, mixed } from "../colours";
import { tokenMap, type History, type Link, type Node, type TokenMap } from "../data";
import { date, exact, isBurn, isExcluded, listOfKinds, name, rough, share } from "../format";
import { ahead, changeOf, drawnAt, evidence, failed, isByOwner, keeps, path, playing, speed, history, isFiltering, place, play, say, select, shown, showPlace, symbolOf, trouble } from "../state";
import { added, LAYERS, show, view } from "../view";
import { anchorsOf, arrange, isInLargeCluster, isNarrow, type Anchors, type Bubble, type Drawing, type Line, type Scene } from "./scene";
import { PLAIN } from "./brush";
import type { Box } from "./labels";
import { Stage } from "./stage";

/** Milliseconds that bubbles move from one date to another. */
const LONGEST_MOVE = 550;

/** Milliseconds after which the maps before and after are loaded, so that the shown one is drawn first. */
const PREPARED_MILLISECONDS = 300;

type Tip = { x: number; y: number; bubble: Bubble | null; line: Line | null };
const tip = signal<Tip | null>(null);
/** The id of the bubble below the pointer. */
const hovered = computed(() => tip.value?.bubble?.id ?? "");
/** The drawn content of the visible map. */
export const scene = signal<Scene | null>(null);
/** How the map is drawn, and what draws it. */
export const look = signal(PLAIN);
export const stage = signal<Stage | null>(null);
const palette = signal(new Map<number, string>());
const busy = signal(false);
/** Pixels per unit of the map, rounded. */
export const zoom = signal(1);

/** Returns the colour of a cluster on the visible map. */
export const colourOf = (cluster: number | null) => (cluster === null ? null : (palette.value.get(cluster) ?? null));

export function BubbleMap() {
  const below = useRef<HTMLCanvasElement>(null);
  const above = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const made = new Stage(below.current as HTMLCanvasElement, above.current as HTMLCanvasElement);
    made.onZoom = () => {
      tip.value = null;
      zoom.value = Number(made.zoom.toPrecision(2));
    };
    stage.value = made;
    const stops = [followMap(made), followLook(made), effect(() => void (isDark.value, isPrinted.value ? made.repaint() : made.changed()))];
    return () => stops.forEach((stop) => stop());
  }, []);
  const act = (action: (on: Stage) => void) => () => stage.value && action(stage.value);
  return (
    <div class="map" aria-busy={scene.value?.map !== shown.value} data-at={scene.value?.map.at}>
      <canvas ref={below} class="links" aria-hidden="true" />
      <canvas
        ref={above}
        class="bubbles"
        id="map"
        tabIndex={0}
        role="application"
        aria-roledescription="bubble map"
        aria-label="Bubble map of the holders"
        aria-describedby="map-help"
        onKeyDown={(event) => stage.value && pressed(event, stage.value)}
        onPointerDown={(event) => stage.value && held(event, stage.value)}
        onPointerMove={(event) => stage.value && pointed(event, stage.value)}
        onPointerUp={() => stage.value?.drop()}
        onPointerLeave={() => (tip.value = null)}
        onClick={(event) => stage.value && clicked(event, stage.value)}
      />
      <p id="map-help" class="sr">
        Arrow keys go from bubble to bubble, Escape ends the selection, plus and minus zoom, 0 shows all, comma and full
        stop go to the date before and after, P plays. The tables have the same holders, clusters and links.
      </p>
      {!trouble.value && <div class="zoom" role="group" aria-label="Zoom">
        <button type="button" aria-label="Zoom in" title="Zoom in (+)" onClick={act((on) => on.zoomBy(1.5))}>+</button>
        <button type="button" aria-label="Zoom out" title="Zoom out (−)" onClick={act((on) => on.zoomBy(1 / 1.5))}>−</button>
        <button type="button" aria-label="Show all bubbles" title="Show all (0)" onClick={act((on) => on.fit())}>
          <svg viewBox="0 0 16 16" aria-hidden="true"><path d="M2 6V2h4M10 2h4v4M14 10v4h-4M6 14H2v-4" /></svg>
        </button>
      </div>}
      <TipCard />
      {trouble.value && (
        <div class="trouble" role="alert">
          <h2>{trouble.value.title}</h2>
          <p><bdi>{trouble.value.advice}</bdi></p>
        </div>
      )}
      {!trouble.value && scene.value?.map === shown.value && scene.value?.bubbles.length === 0 && <Undrawn map={scene.value.map} />}
      {busy.value && !trouble.value && <p class="busy">Arranging the bubbles…</p>}
    </div>
  );
}

/** Why no bubble is drawn, and the way to draw what there is. */
function Undrawn({ map }: { map: TokenMap }) {
  const burnt = map.nodes.reduce((sum, node) => sum + (node.kind !== "time" && isBurn(node) ? (node.share ?? 0) : 0), 0);
  return (
    <div class="trouble" role="alert">
      <h2>{burnt ? `${share(burnt)} of the supply is burnt` : "No holder to draw"}</h2>
      <p>All listed holders are {listOfKinds(map.nodes.filter(isExcluded))}.</p>
      <button type="button" onClick={() => show({ exchanges: true, contracts: true })}>Draw them</button>
    </div>
  );
}

/** The last layout of each map. */
const layouts = new WeakMap<TokenMap, { anchors: Anchors; drawing: Drawing; scene: Promise<Scene> }>();

function arranged(map: TokenMap, anchors: Anchors, drawing: Drawing): Promise<Scene> {
  const before = layouts.get(map);
  if (before?.anchors === anchors && before.drawing === drawing) return before.scene;
  const scene = arrange(map, anchors, drawing);
  layouts.set(map, { anchors, drawing, scene });
  return scene;
}

/** Draws each visible map. A bubble's position depends on the history and the map, not on the maps shown before. */
function followMap(stage: Stage): () => void {
  let token = "";
  let anchors: Promise<Anchors> | null = null;
  let laidOut: History | null = null;
  return effect(() => {
    const of = history.value;
    if (of && laidOut !== of) {
      laidOut = of; // while the map is loading
      anchors = anchorsOf(of.chain, of.address);
    }
    const map = shown.value;
    const drawing = drawn.value;
    if (!map || !of) return;
    const mine = `${of.chain} ${of.address}`;
    const isFirst = mine !== token;
    if (isFirst) {
      token = mine;
      forgetColours();
      busy.value = true;
    }
    const found = anchors as Promise<Anchors>;
    void found.then((at) => arranged(map, at, drawing)).then((made) => {
      busy.value = false;
      if (shown.peek() !== map || drawn.peek() !== drawing) {
        if (isFirst) token = "";
        return;
      }
      palette.value = clusterColours(made.bubbles);
      scene.value = made;
      stage.pace = playing.peek() ? Math.min(LONGEST_MOVE, 900 / speed.peek()) : LONGEST_MOVE;
      stage.show(made, isFirst);
      drawnAt.value = map.at;
      const prepare = () => {
        for (const next of ahead(of, map.at)) {
          const early = tokenMap(of.chain, of.address, next.at, added.peek().join(), isByOwner.peek());
          Promise.all([early, found]).then(([later, places]) => arranged(later, places, drawing)).catch(() => undefined);
        }
      };
      if (playing.peek()) prepare();
      else setTimeout(() => history.peek() === of && prepare(), PREPARED_MILLISECONDS);
    }).catch(failed);
  });
}

/** Scrolls a selection into the part of the screen that its card leaves free. */
function uncover(chosen: ReadonlySet<string>): void {
  const [card, map] = [document.querySelector(".card"), document.getElementById("map")];
  const on = stage.peek();
  if (!isNarrow.matches || !card || !map || !on) return;
  const free = card.getBoundingClientRect().top;
  const [top, bottom] = on.extent(chosen).map((y) => y + map.getBoundingClientRect().top) as [number, number];
  if (top < 8 || bottom > free - 8) scrollBy({ top: (top + bottom) / 2 - free / 2 });
}

const layers = computed(() => LAYERS.filter((one) => view.value[one]).join());
/** The selected nodes that the map would not draw otherwise. */
const chosenIds = computed(() => {
  const map = shown.value;
  const isSmall = (id: string) => map?.byId.has(id) && isInLargeCluster(map, map.byId.get(id) as Node);
  const { from = "", to = "" } = evidence.value?.strongest ?? {};
  return [view.value.node, from, to, ...(path.value ?? [])].filter(isSmall).join("\n");
});
const isComplete = computed(() => view.value.all);
/** The nodes to draw. It changes only with the part of the view that it depends on. */
const drawn = computed((): Drawing => {
  const on = new Set(layers.value.split(","));
  return { magic: on.has("magic"), time: on.has("time"), exchanges: on.has("exchanges"), contracts: on.has("contracts"), all: isComplete.value, added: new Set(added.value), chosen: new Set(chosenIds.value.split("\n")), keeps: keeps.value };
});

/** Colours bubbles by cluster or by change, and highlights the selection. */
function followLook(stage: Stage): () => void {
  let before: ReadonlySet<string> | null = null;
  let isOpened = false;
  return effect(() => {
    const { value: made } = scene;
    const { value: clusters } = palette;
    const { value: changed } = changeOf;
    const { lone, ink, quiet } = colours.value;
    const { cluster } = view.value;
    const node = made?.map.byId.get(view.value.node)?.id ?? view.value.node; // the owner of a wallet
    const changeAt = ({ node }: Bubble) => (node.kind === "top_holder" && changed?.get(node.address)) || "same";
    look.value = {
      fill: (bubble) => {
        if (changed) return CHANGES[changeAt(bubble)] || lone;
        return clusters.get(bubble.node.cluster_id ?? 0) ?? lone;
      },
      sign: (bubble) => {
        if (changed) return (CHANGE_SIGNS as Record<string, string>)[changeAt(bubble)] ?? "";
        return bubble.node.cluster_id === null ? "" : String(bubble.node.cluster_id);
      },
      tinted: !changed,
      colouring: changed ?? clusters,
      chosen: made ? (highlighted(made, node, cluster) ?? pointedAt(made) ?? filtered(made)) : null,
      line: cluster ? mixed(clusters.get(cluster) ?? lone, ink, 0.25) : quiet,
      ringed: node,
      path: path.value,
    };
    stage.setLook(look.value);
    if (node) stage.reveal(node);
    const { chosen } = look.value;
    if ((node || cluster) && chosen?.size && chosen !== before && isOpened) setTimeout(() => uncover(node ? new Set([node]) : chosen));
    before = chosen;
    isOpened ||= made !== null; // a link that is opened shows the page's top
  });
}

function highlighted(made: Scene, node: string, cluster: number): Set<string> | null {
  if (cluster) return evidence.value?.ids ?? new Set();
  if (path.value) return new Set(path.value);
  if (!node || !made.map.byId.has(node)) return null;
  const links = (made.map.linksOf.get(node) ?? []).filter(keeps.value);
  return new Set([node, ...links.flatMap((link) => [link.from, link.to])]);
}

/** The bubble below the pointer with its cluster and all that links lead to. */
function pointedAt(made: Scene): Set<string> | null {
  const bubble = made.byId.get(hovered.value);
  if (!bubble) return null;
  const number = bubble.node.kind === "time" ? null : bubble.node.cluster_id;
  const members = made.bubbles.filter(({ id, node }) => id === bubble.id || (number !== null && node.cluster_id === number && node.kind !== "time")).map(({ id }) => id);
  const ends = (id: string) => (made.map.linksOf.get(id) ?? []).filter(keeps.value).flatMap((link) => [link.from, link.to]);
  return new Set([...members, ...(number === null ? ends(bubble.id) : members.flatMap(ends))]);
}

/** The ends of the lines that a filter keeps. */
const filtered = (made: Scene) => (isFiltering.value ? new Set(made.lines.flatMap(({ from, to }) => [from.id, to.id])) : null);

const DIRECTIONS: Record<string, [number, number]> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

function pressed(event: KeyboardEvent, stage: Stage): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const direction = DIRECTIONS[event.key];
  const keys: Record<string, () => void> = {
    "+": () => stage.zoomBy(1.3),
    "=": () => stage.zoomBy(1.3),
    "-": () => stage.zoomBy(1 / 1.3),
    "0": () => stage.fit(),
    Home: () => goTo(stage.largest()),
    Escape: unselect,
    ",": () => showPlace(place.peek() - 1),
    ".": () => showPlace(place.peek() + 1),
    p: play,
    P: play,
  };
  if (direction) {
    if (event.shiftKey) stage.panBy(-60 * direction[0], -60 * direction[1]);
    else goTo(stage.neighbour(view.peek().node, ...direction));
  } else if (keys[event.key]) keys[event.key]?.();
  else return;
  event.preventDefault();
}

function goTo(bubble: Bubble | null): void {
  if (bubble) select(bubble.id);
  else say("There is no bubble in that direction.");
}

function unselect(): void {
  show({ node: "", cluster: 0, to: "" });
  say("Nothing is selected.");
}

/** Where the pointer went down, and whether it has dragged a bubble since. */
let down: { x: number; y: number; moved: boolean } | null = null;
const DRAG_PIXELS = 4;

function held(event: PointerEvent, stage: Stage): void {
  down = null;
  if (event.pointerType === "touch" || event.button || !stage.grab(event.offsetX, event.offsetY)) return;
  down = { x: event.offsetX, y: event.offsetY, moved: false };
  (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId);
}

function pointed(event: PointerEvent, stage: Stage): void {
  if (event.buttons && down) {
    down.moved ||= Math.hypot(event.offsetX - down.x, event.offsetY - down.y) > DRAG_PIXELS;
    if (down.moved) stage.drag(event.offsetX, event.offsetY);
    tip.value = null;
    return;
  }
  if (event.buttons || event.pointerType === "touch") return;
  const { offsetX: x, offsetY: y } = event;
  const bubble = stage.bubbleAt(x, y);
  const line = bubble ? null : stage.lineAt(x, y);
  tip.value = bubble || line ? { x, y, bubble, line } : null;
  (event.currentTarget as HTMLElement).style.cursor = bubble || line ? "pointer" : "";
}

function clicked(event: MouseEvent, stage: Stage): void {
  if (down?.moved) return; // the end of a drag
  const { offsetX: x, offsetY: y } = event;
  const bubble = stage.bubbleAt(x, y, 6);
  const line = bubble ? null : stage.lineAt(x, y);
  if (bubble) select(bubble.id);
  else if (line) tip.value = { x, y, bubble: null, line };
  else {
    tip.value = null;
    if (view.peek().node || view.peek().cluster) unselect();
  }
}

/** Width and height that a tip has at most. */
const TIP = [270, 96] as const;

/** Returns the place of a tip: next to its bubble or line, where it covers neither; inside the map. */
function tipAt({ x, y, bubble }: Tip): Record<string, number> {
  const { clientWidth: width, clientHeight: height } = stage.peek()?.layers[0] as HTMLCanvasElement;
  const [left, top, right, bottom] = ((bubble && stage.peek()?.boxOf(bubble)) ?? [x, y, x, y]).map((edge, at) => edge + (at < 2 ? -12 : 12)) as Box;
  const across = Math.max(4, Math.min(x - TIP[0] / 2, width - TIP[0] - 4));
  const along = Math.max(4, Math.min(y - TIP[1] / 2, height - TIP[1] - 4));
  if (right + TIP[0] < width) return { left: right, top: along };
  if (left - TIP[0] > 0) return { right: width - left, top: along };
  if (bottom + TIP[1] < height) return { left: across, top: bottom };
  if (top - TIP[1] > 0) return { left: across, bottom: height - top };
  return { [x > width / 2 ? "left" : "right"]: 4, [y > height / 2 ? "top" : "bottom"]: 4 }; // the bubble fills the map
}

function TipCard() {
  const at = tip.value;
  if (!at) return null;
  return (
    <div class="tip" style={Object.entries(tipAt(at)).map(([edge, pixels]) => `${edge}: ${pixels}px`).join("; ")} aria-hidden="true">
      {at.bubble && <BubbleTip bubble={at.bubble} />}
      {at.line && <LineTip line={at.line} />}
    </div>
  );
}

function BubbleTip({ bubble: { node } }: { bubble: Bubble }) {
  return (
    <>
      <strong><bdi>{name(node)}</bdi></strong>
      {node.kind === "magic" && <span>Wallet that links holders{node.rank === null && "; not in the list of holders"}</span>}
      {node.kind === "time" && <span>Holders used it within one window of time ({node.time_node})</span>}
      {node.rank !== null && <span>#{node.rank}, {share(node.share)}, {rough(node.amount)}</span>}
      {node.cluster_id !== null && <span>Cluster {node.cluster_id}</span>}
    </>
  );
}

function LineTip({ line }: { line: Line }) {
  const listed = line.links.slice(0, 4);
  return (
    <>
      {listed.map((link, at) => <LinkTip key={at} link={link} line={line} />)}
      {line.links.length > listed.length && <span>and {line.links.length - listed.length} more</span>}
    </>
  );
}

function LinkTip({ link, line }: { link: Link; line: Line }) {
  const [from, to] = link.from === line.from.id ? [line.from, line.to] : [line.to, line.from];
  return (
    <div>
      <strong><bdi>{name(from.node)}</bdi> → <bdi>{name(to.node)}</bdi></strong>
      <span><Amount link={link} /> in {link.transfers ?? "?"} {link.transfers === 1 ? "transfer" : "transfers"}</span>
      <span>{date(link.first_date)} to {date(link.last_date)}</span>
    </div>
  );
}

/** The amount of a link, with the symbol of its token. */
export function Amount({ link }: { link: Link }) {
  const symbol = symbolOf(link);
  return (
    <span title={`${exact(link.amount)} ${symbol}`}>
      {rough(link.amount)} <bdi class="symbol">{symbol}</bdi>
    </span>
  );
}
