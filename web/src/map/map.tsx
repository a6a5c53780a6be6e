/** The bubble map: canvas, pointer and keyboard controls, and tooltip. */
import { computed, effect, signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { CHANGES, clusterColours, colours, forgetColours, isDark, isPrinted, mixed } from "../colours";
import { tokenMap, type History, type Link, type Node, type TokenMap } from "../data";
import { date, exact, name, rough, share } from "../format";
import { ahead, changeOf, drawnAt, evidence, failed, isByOwner, keeps, path, playing, speed, history, place, play, say, select, shown, showPlace, symbolOf, trouble } from "../state";
import { added, LAYERS, show, view } from "../view";
import { anchorsOf, arrange, isInLargeCluster, isNarrow, type Anchors, type Bubble, type Drawing, type Line, type Scene } from "./scene";
import { PLAIN } from "./brush";
import { Stage } from "./stage";

/** Height of a row of the legend over the map. Its own height depends on the zoom, which depends on this. */
const LEGEND_PIXELS = 32;
/** Milliseconds that bubbles move from one date to another. */
const LONGEST_MOVE = 550;

/** Milliseconds after which the maps before and after are loaded, so that the shown one is drawn first. */
const PREPARED_MILLISECONDS = 300;

type Tip = { x: number; y: number; bubble: Bubble | null; line: Line | null };
const tip = signal<Tip | null>(null);
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

const SIGNS: Record<string, string> = { entered: "+", grew: "▲", shrank: "▼", same: "" };

export function BubbleMap() {
  const below = useRef<HTMLCanvasElement>(null);
  const above = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const made = new Stage(below.current as HTMLCanvasElement, above.current as HTMLCanvasElement);
    made.onZoom = () => {
      tip.value = null;
      zoom.value = Number(made.zoom.toPrecision(2));
    };
    made.covered = ({ more, hidden }) => {
      const legend = document.querySelector<HTMLElement>(".map-legend");
      return legend && getComputedStyle(legend).position === "absolute" ? LEGEND_PIXELS * (view.peek().all || more.length || hidden ? 2 : 1) : 0;
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
        onPointerMove={(event) => stage.value && pointed(event, stage.value)}
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
      {busy.value && !trouble.value && <p class="busy">Arranging the bubbles…</p>}
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
  return effect(() => {
    const { value: made } = scene;
    const { value: clusters } = palette;
    const { value: changed } = changeOf;
    const { lone, ink, quiet } = colours.value;
    const { cluster } = view.value;
    const node = made?.map.byId.get(view.value.node)?.id ?? view.value.node; // the owner of a wallet
    const changeAt = ({ node }: Bubble) => {
      const { kind, strength } = changed?.get(node.address) ?? { kind: "same", strength: 0 };
      return strength && node.kind === "top_holder" ? ([kind, mixed(lone, CHANGES[kind as keyof typeof CHANGES] || lone, strength)] as const) : (["same", lone] as const);
    };
    look.value = {
      fill: (bubble) => {
        if (changed) return changeAt(bubble)[1];
        return clusters.get(bubble.node.cluster_id ?? 0) ?? lone;
      },
      sign: (bubble) => {
        if (changed) return SIGNS[changeAt(bubble)[0]] ?? "";
        return bubble.node.cluster_id === null ? "" : String(bubble.node.cluster_id);
      },
      tinted: !changed,
      chosen: made ? highlighted(made, node, cluster) : null,
      line: cluster ? mixed(clusters.get(cluster) ?? lone, ink, 0.25) : quiet,
      ringed: node,
      path: path.value,
    };
    stage.setLook(look.value);
    if (node) stage.reveal(node);
    const { chosen } = look.value;
    if (chosen?.size && chosen !== before) setTimeout(() => uncover(node ? new Set([node]) : chosen));
    before = chosen;
  });
}

function highlighted(made: Scene, node: string, cluster: number): Set<string> | null {
  if (cluster) return evidence.value?.ids ?? new Set();
  if (path.value) return new Set(path.value);
  if (!node || !made.map.byId.has(node)) return null;
  const links = (made.map.linksOf.get(node) ?? []).filter(keeps.value);
  return new Set([node, ...links.flatMap((link) => [link.from, link.to])]);
}

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

function pointed(event: PointerEvent, stage: Stage): void {
  if (event.buttons || event.pointerType === "touch") return;
  const { offsetX: x, offsetY: y } = event;
  const bubble = stage.bubbleAt(x, y);
  const line = bubble ? null : stage.lineAt(x, y);
  tip.value = bubble || line ? { x, y, bubble, line } : null;
  (event.currentTarget as HTMLElement).style.cursor = bubble || line ? "pointer" : "";
}

function clicked(event: MouseEvent, stage: Stage): void {
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

function TipCard() {
  const at = tip.value;
  if (!at) return null;
  const side = at.x > 320 ? "left" : "right";
  return (
    <div class={`tip ${side}`} style={{ left: `${at.x}px`, top: `${at.y}px` }} aria-hidden="true">
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
