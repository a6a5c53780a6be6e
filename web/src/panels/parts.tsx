/** Parts that several panels use: names of holders, cluster numbers, expandable tables, copy buttons. */
import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { brief, cut, isBurn } from "../format";
import { colourOf } from "../map/map";
import { say, select, selectCluster, shown } from "../state";
import { view } from "../view";

type Named = {
  id?: string;
  address: string;
  label: string | null;
  is_cex: boolean | null;
  is_dex: boolean | null;
  is_contract: boolean | null;
  kind?: string;
  time_node?: number | null;
};

/** A holder's name; a click selects it if it is on this map. */
export function Holder({ node }: { node: Named }) {
  const id = node.id ?? node.address;
  const shownName = node.label ? <bdi class="cut">{cut(node.label, 60)}</bdi> : <bdi class="code">{brief(node.address)}</bdi>;
  const title = `${(node.label ?? "").slice(0, 300)}\n${node.address.slice(0, 200)}`.trim();
  return (
    <span class="holder">
      {shown.value?.byId.has(id) ? (
        <button type="button" class="plain" title={title} aria-pressed={view.value.node === id} onClick={() => select(id)}>
          {shownName}
        </button>
      ) : (
        <span title={title}>{shownName}</span>
      )}
      <Kinds node={node} />
    </span>
  );
}

export function Kinds({ node }: { node: Named }) {
  const kinds = [
    node.kind === "magic" && "links holders",
    node.kind === "time" && `window ${node.time_node}`,
    isBurn(node) ? "burn" : [node.is_cex && "exchange", node.is_dex ? "pool" : node.is_contract && "contract"],
  ].flat().filter(Boolean);
  return <>{kinds.map((kind) => <span key={String(kind)} class="kind">{kind}</span>)}</>;
}

export function ClusterMark({ number, called }: { number: number | null; called?: string }) {
  if (number === null) return null;
  const mark = (
    <>
      <svg viewBox="0 0 10 10" aria-hidden="true" class="dot"><circle cx="5" cy="5" r="5" fill={colourOf(number) ?? "#888888"} /></svg>
      {called}
      {number}
    </>
  );
  if (called) return <span class="cluster-mark">{mark}</span>;
  return (
    <button type="button" class="plain cluster-mark" aria-label={`Cluster ${number}`} onClick={() => selectCluster(number)}>
      {mark}
    </button>
  );
}

/** A fact of a card, in a list of definitions. */
export function Fact({ name, wide = false, children }: { name: string; wide?: boolean; children: preact.ComponentChildren }) {
  return <div class={wide ? "wide" : ""}><dt>{name}</dt><dd>{children}</dd></div>;
}

/** The first rows of a table, with a button for more: thousands of rows would be slow. */
export function Rows<T>({ of, first = 60, children }: { of: T[]; first?: number; children: (row: T, at: number) => ComponentChildren }) {
  const [all, setAll] = useState(false);
  const listed = all ? of : of.slice(0, first);
  return (
    <>
      {listed.map(children)}
      {of.length > listed.length && (
        <tr class="more">
          <td colSpan={9}>
            <button type="button" onClick={() => setAll(true)}>Show all {of.length}</button>
            <span class="on-paper">and {of.length - listed.length} more</span>
          </td>
        </tr>
      )}
    </>
  );
}

/** The search box of a panel; its text is part of the URL. */
export function Find({ what, found, onFind }: { what: string; found: string; onFind: (text: string) => void }) {
  return (
    <div class="find">
      <input
        type="search"
        aria-label={`Search ${what}`}
        placeholder={`Search ${what}`}
        maxLength={500}
        spellcheck={false}
        value={view.value.find}
        onInput={(event) => onFind(event.currentTarget.value)}
      />
      <span class="quiet" aria-live="polite">{found}</span>
    </div>
  );
}

/** Returns whether a text contains all words of the search. */
export function matches(find: string, ...texts: (string | null | undefined)[]): boolean {
  const words = find.toLowerCase().split(/\s+/).filter(Boolean);
  const whole = texts.join(" ").toLowerCase();
  return words.every((word) => {
    const [begin, end] = word.split(/…|\.\.\./); // a short address
    return end === undefined ? whole.includes(word) : texts.some((text) => text?.toLowerCase().startsWith(begin ?? "") && text.toLowerCase().endsWith(end));
  });
}

const copied = signal("");

/** A button that copies a text, and confirms it. */
export function Copy({ text, what, shows }: { text: string; what: string; shows?: string }) {
  const done = copied.value === text;
  const copy = async () => {
    if (!(await copyText(text))) return say(`The browser does not let the ${what} be copied.`);
    copied.value = text;
    say(`Copied the ${what}.`);
    setTimeout(() => (copied.value = ""), 1_500);
  };
  return (
    <button type="button" class={shows ? "" : "small"} onClick={copy} aria-label={shows ? undefined : `${done ? "Copied" : "Copy"} the ${what}`}>
      {done ? "Copied" : (shows ?? "Copy")}
    </button>
  );
}

/** Copies a text; returns whether it worked. Pages of http addresses other than localhost have no clipboard API. */
async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const focused = document.activeElement as HTMLElement | null;
    const box = document.createElement("textarea");
    box.value = text;
    box.className = "sr";
    (document.querySelector("dialog[open]") ?? document.body).append(box);
    box.select();
    const done = document.execCommand("copy");
    box.remove();
    focused?.focus();
    return done;
  }
}
