/** Builds the page from its parts. */
import { computed, effect, signal } from "@preact/signals";
import { render } from "preact";
import { useEffect, useRef } from "preact/hooks";
import "./explorer.css";
import { CHANGE_SIGNS, CHANGES, setTheme, theme, THEMES } from "./colours";
import { FIGURES, HEADLINE, LEGEND, PALETTE, type FigureName } from "./columns";
import { isSaved, type Node } from "./data";
import { brief, chainName, count, counted, cut, date, figure, isExcluded, listOfKinds, partOf, seconds, share } from "./format";
import { BubbleMap, scene, zoom } from "./map/map";
import { samples } from "./map/scene";
import { Added } from "./panels/added";
import { Clusters } from "./panels/clusters";
import { Compare } from "./panels/compare";
import { Concentration } from "./panels/concentration";
import { Excluded, Holders } from "./panels/holders";
import { Links } from "./panels/links";
import { Picker } from "./panels/picker";
import { Save } from "./panels/save";
import { Copy } from "./panels/parts";
import { Selection } from "./panels/selection";
import { TimeBar } from "./panels/time";
import { changeOf, finding, follow, history, instant, isFolded, other, shown, spoken, title, trouble } from "./state";
import { show, TABS, view, type Layer, type Tab } from "./view";

const PANELS: Record<Tab, [string, () => preact.ComponentChildren]> = {
  holders: ["Holders", () => <Holders />],
  clusters: ["Clusters", () => <Clusters />],
  links: ["Links", () => <Links />],
  concentration: ["Charts", () => <Concentration />],
  compare: ["Compare", () => <Compare />],
};

/** A saved page cannot compare: the explorer does that. */
const tabs = TABS.filter((tab) => !isSaved || tab !== "compare");
const icon = document.querySelector<HTMLLinkElement>("link[rel=icon]")?.href;

function App() {
  return (
    <>
      <a class="skip" href="#panel">Skip to the tables</a>
      <header>
        <a class="brand" {...(!isSaved && { href: "./" })}><img src={icon} alt="Holderlake" width="24" height="24" /><span aria-hidden="true">Holderlake</span></a>
        {!isSaved && <Picker />}
        <div class="tools"><Save />{!isSaved && <Share />}<Themes /><Help /></div>
      </header>
      <main>
        <section class="stage" aria-labelledby="title">
          <Heading />
          {finding.value[0] && <Finding />}
          <AfterData />
          <AssumedDecimals />
          <div class="map-area">
            <BubbleMap />
            <Legend />
          </div>
          <TimeBar />
          <div class="foot">
            <Excluded />
            {!isSaved && <Added />}
          </div>
        </section>
        <section class="side" aria-label="Tables" id="panel" tabIndex={-1}>
          <Selection />
          <Tabs />
        </section>
      </main>
      <div class="sr" role="status" aria-live="polite">{spoken.value}</div>
    </>
  );
}

/** The sentence about the map; what follows the first full stop is in a lighter type. */
function Finding() {
  const [first, rest] = finding.value;
  return <p class="finding"><img src={icon} alt="" width="18" height="18" /><bdi>{first} <span class="quiet">{rest}</span></bdi></p>;
}

/** Says which two dates the map compares, if it does. */
const compared = computed(() => (changeOf.value && other.value && instant.value ? `${date(instant.value.at)}, compared with ${date(other.value.at)}` : ""));

function Heading() {
  const { value: of } = history;
  const { value: at } = instant;
  return (
    <div class="heading">
      <div class="what">
        <h1 id="title"><bdi class="cut" title={(of?.name || of?.address || "").slice(0, 300)}>{title.value || "Holderlake explorer"}</bdi> {of?.name && <bdi class="symbol">{cut(of.symbol, 16)}</bdi>}</h1>
        {of && (
          <p class="quiet"><bdi>{chainName(of.chain)}</bdi>{(of.name || of.symbol) && <> · <bdi class="code" title={of.address.slice(0, 200)}>{brief(of.address)}</bdi></>} <Copy text={of.address} what="token’s address" /> <bdi class="on-paper">{of.address.slice(0, 200)}</bdi> <Badge /></p>
        )}
        {compared.value && <p class="compared">{compared.value}</p>}
        <NameHint />
      </div>
      {at && (
        <dl class="figures">
          {HEADLINE.map((name) => <Headline key={name} name={name} value={at[name]} />)}
        </dl>
      )}
    </div>
  );
}

/** A figure; a share and the score have a bar. */
function Headline({ name, value }: { name: FigureName; value: number | null }) {
  const part = partOf(name, value);
  return (
    <div title={FIGURES[name].explanation}>
      <dt>{FIGURES[name].short}</dt>
      <dd>
        {figure(name, value)}
        {part !== null && <span class="bar" aria-hidden="true"><span style={{ width: `${part * 100}%` }} /></span>}
      </dd>
    </div>
  );
}

/** Whether the token's transfers are those of a node, if they were compared. */
function Badge() {
  const check = history.value?.verified;
  if (!check) return null;
  if (check.isComplete && check.hasOtherBalances)
    return <span class="badge wrong" title="The contract changes balances without transfers, as rebasing tokens and tokens with a fee do: ‘holderlake import verify’ names the cause">balances not exact</span>;
  const until = `block ${count(check.block)}, ${date(check.asOf)}`;
  return check.isComplete
    ? <span class="badge" title={`All transfers up to ${until} are those of a node`}>verified to {date(check.asOf)}</span>
    : <span class="badge wrong" title={`Transfers up to ${until} differ from those of a node: run ‘holderlake import verify’`}>incomplete</span>;
}

const dayOf = (unix: number) => Math.floor(unix / 86_400);

/** A note on a map that is later than the source's data, in days of the calendar. */
function AfterData() {
  const { days_after_data: late, at = "" } = instant.value ?? {};
  const end = history.value?.dataEnd;
  if (!late || !end) return null;
  const days = dayOf(seconds(at)) - dayOf(end);
  return (
    <Note says={`The source’s data of this token end on ${date(end)}, ${count(days)} ${days === 1 ? "day" : "days"} before this date.`}>
      The map shows the holders of that day. A token that is no longer used looks the same.
    </Note>
  );
}

/** A note on amounts whose decimals no source gave. */
function AssumedDecimals() {
  const decimals = history.value?.assumedDecimals;
  if (decimals === null || decimals === undefined) return null;
  return (
    <Note says={`Amounts may be wrong: ${count(decimals)} decimals are assumed.`}>
      No source gave the decimals of this token. Shares do not depend on them.{!isNamed.value && <> <TokenList /></>}
    </Note>
  );
}

const isNamed = computed(() => Boolean(history.value?.name || history.value?.symbol));

/** The way to a name for a token that has neither name nor symbol. */
function NameHint() {
  if (!history.value || isNamed.value || isSaved) return null;
  return <details class="name-hint"><summary>Name this token</summary><p class="quiet"><TokenList /></p></details>;
}

function TokenList() {
  return <>A token list, a JSON file with names, symbols and decimals, gives the token its name: <code>holderlake import files tokens.json</code></>;
}

/** A warning of one line, which unfolds. */
function Note({ says, children }: { says: string; children: preact.ComponentChildren }) {
  return (
    <div class="after-data" role="note">
      <details>
        <summary>{says}</summary>
        <p>{children}</p>
      </details>
    </div>
  );
}

/** Sample bubbles of round shares in the scale of the map. */
function Sizes() {
  const listed = samples(zoom.value).slice(0, 2);
  if (!listed.length || !scene.value?.bubbles.length) return null;
  return (
    <li class="sizes">
      <i>{LEGEND.size}</i>
      {listed.map(({ share: part, radius }) => (
        <span key={part}>
          <svg style={{ width: `${2 * radius}px`, height: `${2 * radius}px` }} aria-hidden="true"><circle cx={radius} cy={radius} r={radius} style={{ fill: "var(--lone)", stroke: "var(--rim)" }} /></svg>
          {share(part)}
        </span>
      ))}
    </li>
  );
}

function Legend() {
  if (trouble.value) return null; // there is nothing to explain
  const has = (what: (node: Node) => boolean) => (shown.value?.nodes ?? []).some(what);
  const others = (shown.value?.nodes ?? []).filter((node) => isExcluded(node) && !node.is_cex);
  return (
    <ul class="legend map-legend" aria-label={changeOf.value ? "What the colours mean" : "What the map shows"}>
      {changeOf.value && (["entered", "grew", "shrank"] as const).map((kind) => <li key={kind}><Dot colour={CHANGES[kind]} />{kind} {CHANGE_SIGNS[kind]}</li>)}
      {changeOf.value && <li title="A share that changed by less than 1% of it"><Dot colour="var(--lone)" />as before</li>}
      {!changeOf.value && has((node) => node.kind === "top_holder" && node.cluster_id !== null) && <li title="The number is in each bubble"><Dot colour={PALETTE[0]} />{LEGEND.cluster.toLowerCase()}</li>}
      {!changeOf.value && has((node) => node.kind === "top_holder" && node.cluster_id === null) && <li><Dot colour="var(--lone)" />{LEGEND.alone.toLowerCase()}</li>}
      <Sizes />
      {has((node) => node.kind === "magic") && <Toggle layer="magic"><svg viewBox="0 0 12 12" aria-hidden="true"><circle cx="6" cy="6" r="4.5" class="hollow" /></svg><span title="Wallets that link holders (magic nodes)">{LEGEND.magic.toLowerCase()}</span></Toggle>}
      {has((node) => node.kind === "time") && <Toggle layer="time"><svg viewBox="0 0 12 12" aria-hidden="true"><path d="M6 1l5 5-5 5-5-5z" class="hollow" /></svg><span title="Where holders moved tokens in the same minutes (time nodes)">{LEGEND.time.toLowerCase()}</span></Toggle>}
      {history.value?.hasOwners && <Owners />}
      {has((node) => isExcluded(node) && node.is_cex === true) && <Toggle layer="exchanges">exchanges</Toggle>}
      {others.length > 0 && <Toggle layer="contracts">{listOfKinds(others)}</Toggle>}
      <Everything />
    </ul>
  );
}

/** A box that shows the weaker links and the smaller members of large clusters, which the map leaves out at first. */
function Everything() {
  const { more = [], hidden = 0 } = scene.value ?? {};
  const { all } = view.value;
  if (!all && !more.length && !hidden) return null;
  const left = [more.length && counted(more.length, "weaker line"), hidden && counted(hidden, "smaller member")].filter(Boolean).join(", ");
  return <li><label><input type="checkbox" checked={all} onChange={() => show({ all: !all })} />all lines and members{left && ` (+ ${left})`}</label></li>;
}

/** A box that shows the wallets of one owner as one bubble. */
function Owners() {
  const { owners } = view.value;
  return <li><label title="Wallets that probably have one owner, by your own transfers, as one bubble"><input type="checkbox" checked={owners} onChange={() => show({ owners: !owners })} />holders by owner</label></li>;
}

/** A box that shows or hides a kind of nodes on the map. */
function Toggle({ layer, children }: { layer: Layer; children: preact.ComponentChildren }) {
  return (
    <li>
      <label><input type="checkbox" checked={view.value[layer]} onChange={() => show({ [layer]: !view.value[layer] })} />{children}</label>
    </li>
  );
}

const Dot = ({ colour }: { colour: string }) => (
  <svg viewBox="0 0 12 12" aria-hidden="true"><circle cx="6" cy="6" r="5.5" style={{ fill: colour, ...(colour === "var(--lone)" && { stroke: "var(--rim)" }) }} /></svg>
);

function Tabs() {
  const { tab } = view.value;
  const choose = (one: Tab) => {
    isFolded.value = one === "compare";
    show({ tab: one, find: "" }, true);
  };
  const pressed = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const next = tabs[(tabs.indexOf(tab) + (step ?? 0) + tabs.length) % tabs.length];
    if (!step || !next) return;
    event.preventDefault();
    choose(next);
    document.getElementById(`tab-${next}`)?.focus();
  };
  return (
    <div class="tabs">
      <div role="tablist" aria-label="Tables" onKeyDown={pressed}>
        {tabs.map((one) => (
          <button key={one} type="button" role="tab" id={`tab-${one}`} aria-selected={one === tab} aria-controls="tabpanel" tabIndex={one === tab ? 0 : -1} onClick={() => choose(one)}>
            {PANELS[one][0]}
          </button>
        ))}
      </div>
      <div role="tabpanel" id="tabpanel" aria-labelledby={`tab-${tab}`} tabIndex={0} key={tab}>{PANELS[tab][1]()}</div>
    </div>
  );
}

/** A link to the view with an explicit date, because "the newest" changes. */
function Share() {
  view.value;
  const address = new URL(location.href);
  if (instant.value) address.searchParams.set("at", instant.value.at);
  return <Copy text={address.href} what="link to this view" shows="Copy link" />;
}

const NAMES = { auto: "Auto", light: "Light", dark: "Dark" };

function Themes() {
  const next = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length] ?? "auto";
  return (
    <button type="button" aria-label={`Colours: ${NAMES[theme.value]}; change to ${NAMES[next]}`} title={`Colours: ${NAMES[theme.value]}`} onClick={() => setTheme(next)}>
      <svg viewBox="0 0 16 16" aria-hidden="true"><circle cx="8" cy="8" r="6" class="hollow" /><path d={theme.value === "auto" ? "M8 2a6 6 0 0 1 0 12z" : theme.value === "dark" ? "M8 2a6 6 0 0 1 0 12 6 6 0 0 1 0-12z" : ""} /></svg>
    </button>
  );
}

const helping = signal(false);
const KEYS: [string, string][] = [
  ["Tab", "to the search, the map, the slider, the tables"],
  ["Arrow keys", "on the map: from bubble to bubble; with Shift they move the map"],
  ["Home", "the largest bubble"],
  ["Escape", "ends the selection"],
  ["+  −  0", "zoom in, out, show all"],
  [",  .", "the date before, the date after"],
  ["P", "plays the history, or stops"],
];

function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (helping.value) dialog.current?.showModal();
  }, [helping.value]);
  return (
    <>
      <button type="button" aria-label="Help and keys" title="Help and keys" onClick={() => (helping.value = true)}>?</button>
      <dialog ref={dialog} aria-labelledby="help-title" onClose={() => (helping.value = false)}>
        <h2 id="help-title">Reading the map</h2>
        <p>
          A bubble is a holder, its area the part of the supply that it holds. Lines are transfers; holders that they
          connect are a cluster, in one colour and with one number. A hollow ring is a wallet that links
          holders (a magic node). It can hold a part of the supply too. A diamond is an exchange, pool or contract in one window of
          time (a time node). It connects the holders that used it then. Exchanges and contracts themselves are listed below the
          map. The card of a cluster says why its holders are together.
        </p>
        <h3>Keys on the map</h3>
        <dl class="keys">{KEYS.map(([key, does]) => <div key={key}><dt>{key}</dt><dd>{does}</dd></div>)}</dl>
        <p>{isSaved ? "The licences of the libraries in this page are at the end of its file." : <a href="licences.txt">Licences of the libraries in this page</a>}</p>
        <button type="button" onClick={() => dialog.current?.close()}>Close</button>
      </dialog>
    </>
  );
}

effect(() => {
  document.documentElement.dataset.theme = theme.value;
});
effect(() => {
  document.title = title.value ? `${title.value} · Holderlake` : "Holderlake explorer";
});
follow(); // requests leave before the page is built
/** Builds the page once its first map is there. To build it without one before would take as long again. */
const stopWaiting = effect(() => {
  if (!shown.value && !trouble.value) return;
  stopWaiting();
  const root = document.getElementById("app") as HTMLElement;
  root.textContent = "";
  render(<App />, root);
});
