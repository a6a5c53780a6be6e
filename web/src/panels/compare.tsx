/** Comparison of two dates: changes of the figures, and holders who entered, left, grew or shrank. And of two sources. */
import { FIGURES, type FigureName } from "../columns";
import type { Change, Difference, Instant } from "../data";
import { CHANGES } from "../colours";
import { cut, date, figure, points, rough, share, signed } from "../format";
import { changes, differences, instant, instants, other, showPlace, shown, span } from "../state";
import { show, view } from "../view";
import { Find, Holder, matches, Rows } from "./parts";

const KINDS: [Change["change"], string, string][] = [
  ["entered", "Entered", "+"],
  ["left", "Left", ""],
  ["grew", "Grew", "▲"],
  ["shrank", "Shrank", "▼"],
];

export function Compare() {
  const [now, before] = [instant.value, other.value];
  if (instants.value.length < 2 || !now) {
    return (
      <div class="compare">
        <p class="quiet">There is only one date; nothing to compare it with.</p>
        <Sources />
      </div>
    );
  }
  return (
    <div class="compare">
      <div class="dates-row">
        <label>
          <span>Compare with</span>
          <Dates id="before" value={before?.at ?? ""} nothing="Choose a date" onChange={(at) => show({ with: at }, true)} />
        </label>
        <label>
          <span>Date of the map</span>
          <Dates id="after" value={now.at} onChange={(at) => showPlace(instants.value.findIndex((one) => one.at === at))} />
        </label>
      </div>
      {before && !span.value && <p class="quiet">Both are the same date; choose another one.</p>}
      {span.value && changes.value && <Found before={span.value[0]} now={span.value[1]} found={changes.value} />}
      {!before && (
        <p class="quiet">Choose a date to see who came and who left between the two dates, on the map and in a list.</p>
      )}
      <Sources />
    </div>
  );
}

/** Differences between two sources at the visible date, a list for each pair of sources. */
function Sources() {
  const pairs = new Map<string, Difference[]>();
  for (const one of differences.value) {
    const name = `${one.source_a}\n${one.source_b}`;
    pairs.set(name, [...(pairs.get(name) ?? []), one]);
  }
  return <>{[...pairs].map(([name, rows]) => <Pair key={name} rows={rows} />)}</>;
}

function Pair({ rows }: { rows: Difference[] }) {
  const [first] = rows;
  if (!first) return null;
  const [one, two] = [cut(first.source_a, 40), cut(first.source_b, 40)];
  if (first.what === "equal") {
    return <p class="quiet">The sources {one} and {two} have the same holders, links and clusters at this date.</p>;
  }
  return (
    <details class="sources" open>
      <summary>Sources {one} and {two} <span class="quiet">{first.found} {first.found === 1 ? "difference" : "differences"}</span></summary>
      <table>
        <thead>
          <tr><th scope="col">What</th><th scope="col">In {one}</th><th scope="col">In {two}</th><th scope="col">Cause</th></tr>
        </thead>
        <tbody>
          <Rows of={rows} first={15}>
            {(row) => (
              <tr key={`${row.what} ${row.subject}`}>
                <th scope="row">{row.what} <Subject text={row.subject} /></th>
                <td>{row.a === null ? "–" : cut(row.a, 60)}</td>
                <td>{row.b === null ? "–" : cut(row.b, 60)}</td>
                <td>{row.cause}</td>
              </tr>
            )}
          </Rows>
        </tbody>
      </table>
    </details>
  );
}

/** The subject of a difference: a node of the map can be selected. */
function Subject({ text }: { text: string }) {
  const node = shown.value?.byId.get(text);
  return node ? <Holder node={node} /> : <span title={text}>{cut(text, 40)}</span>;
}

function Dates(props: { id: string; value: string; nothing?: string; onChange: (at: string) => void }) {
  return (
    <select id={props.id} value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
      {props.nothing && <option value="">{props.nothing}</option>}
      {[...instants.value].reverse().map((one) => <option key={one.at} value={one.at}>{date(one.at)}</option>)}
    </select>
  );
}

function Found({ before, now, found }: { before: Instant; now: Instant; found: Change[] }) {
  const { find } = view.value;
  const moved = found.filter((one) => matches(find, one.label, one.address));
  return (
    <>
      <table class="figures-table">
        <caption class="sr">Figures at both dates</caption>
        <thead>
          <tr><th scope="col">Figure</th><th scope="col" class="num">{date(before.at)}</th><th scope="col" class="num">{date(now.at)}</th><th scope="col" class="num">Change</th></tr>
        </thead>
        <tbody>
          {(Object.keys(FIGURES) as FigureName[]).map((name) => {
            const [one, two] = [before[name], now[name]];
            return (
              <tr key={name}>
                <th scope="row" title={FIGURES[name].explanation}>{FIGURES[name].title}</th>
                <td class="num">{figure(name, one)}</td>
                <td class="num">{figure(name, two)}</td>
                <td class="num">{signed(one === null || two === null ? null : two - one, FIGURES[name].unit === "share" ? points : (value) => figure(name, value))}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {before.series !== now.series && before.series && now.series && (
        <p class="quiet">The maps have different options ({before.series}; {now.series}): their numbers are not comparable.</p>
      )}
      <p class="quiet">Changes from {date(before.at)} to {date(now.at)}.</p>
      <Find what="changes" found={`${moved.length} holders moved`} onFind={(text) => show({ find: text })} />
      {KINDS.map(([kind, title, sign]) => (
        <Moved key={kind} kind={kind} title={title} sign={sign} rows={moved.filter((one) => one.change === kind)} />
      ))}
      <p class="quiet">A full list has an end: an address that it lacks may still hold, at most the amount of its last holder.</p>
    </>
  );
}

function Moved({ kind, title, sign, rows }: { kind: Change["change"]; title: string; sign: string; rows: Change[] }) {
  return (
    <details open={rows.length > 0}>
      <summary>
        <svg viewBox="0 0 10 10" aria-hidden="true" class="dot"><circle cx="5" cy="5" r="5" fill={CHANGES[kind]} /></svg>
        {title} {sign && <span aria-hidden="true">{sign}</span>} <span class="quiet">{rows.length}</span>
      </summary>
      {rows.length > 0 && (
        <table class="moved-table">
          <thead class="sr"><tr><th scope="col">Holder</th><th scope="col">Share</th><th scope="col">Amount moved</th></tr></thead>
          <tbody>
            <Rows of={rows} first={15}>
              {(one) => (
                <tr key={one.address}>
                  <td class="wide"><Holder node={one} /></td>
                  <td class="num">{share(one.share_before)} → {share(one.share_after)}</td>
                  <td class="num">{one.amount_change !== null ? signed(Number(one.amount_change), () => rough(one.amount_change)) : one.unlisted_at_most !== null && `not in the list ${kind === "entered" ? "before" : "after"} (at most ${rough(one.unlisted_at_most)})`}</td>
                </tr>
              )}
            </Rows>
          </tbody>
        </table>
      )}
    </details>
  );
}
