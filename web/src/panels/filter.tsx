/** The filter of links, for the map and the tables: number, amount and time of transfers, token, side. */
import { useState } from "preact/hooks";
import { amountOf } from "../format";
import { isFiltering } from "../state";
import { NO_FILTER, show, view, type Filter } from "../view";

const KINDS: [Filter["kind"], string][] = [["all", "all tokens"], ["own", "this token"], ["other", "other tokens"]];
const SIDES: [Filter["side"], string][] = [["both", "in and out"], ["in", "in"], ["out", "out"]];

export function LinkFilter() {
  const [open, setOpen] = useState(isFiltering.value);
  const { times, least, since, until, kind, side, node } = view.value;
  return (
    <details class="filter" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Filter links {isFiltering.value && <span class="quiet">on the map and in the tables</span>}</summary>
      <div class="fields">
        <Field name="Transfers, at least"><input inputMode="numeric" value={times || ""} onChange={(event) => show({ times: amountOf(event.currentTarget.value) })} /></Field>
        <Field name="Amount, at least"><input inputMode="decimal" placeholder="such as 10M" value={least || ""} onChange={(event) => show({ least: amountOf(event.currentTarget.value) })} /></Field>
        <Field name="Since"><input type="date" value={since} onChange={(event) => show({ since: event.currentTarget.value })} /></Field>
        <Field name="Until"><input type="date" value={until} onChange={(event) => show({ until: event.currentTarget.value })} /></Field>
        <Field name="Kind"><Choice of={KINDS} value={kind} onChoice={(chosen) => show({ kind: chosen })} /></Field>
        <Field name="Side of the selected wallet"><Choice of={SIDES} value={side} disabled={!node} onChoice={(chosen) => show({ side: chosen })} /></Field>
      </div>
      {isFiltering.value && <button type="button" onClick={() => show(NO_FILTER)}>Clear the filter</button>}
    </details>
  );
}

const Field = ({ name, children }: { name: string; children: preact.ComponentChildren }) => <label><span>{name}</span>{children}</label>;

function Choice<T extends string>({ of, value, disabled = false, onChoice }: { of: [T, string][]; value: T; disabled?: boolean; onChoice: (chosen: T) => void }) {
  return (
    <select value={value} disabled={disabled} onChange={(event) => onChoice(event.currentTarget.value as T)}>
      {of.map(([one, text]) => <option key={one} value={one}>{text}</option>)}
    </select>
  );
}
