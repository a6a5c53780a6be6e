/** Tables of links: of the map, of a holder, or the evidence of a cluster. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { pages, transfersOf, type Link, type Transfer } from "../data";
import { brief, counted, cut, date, exact, rough } from "../format";
import { Amount } from "../map/map";
import { isFiltering, keeps, shown } from "../state";
import { show, view } from "../view";
import { LinkFilter } from "./filter";
import { Copy, Find, Holder, matches, Rows } from "./parts";

export function Links() {
  const map = shown.value;
  if (!map?.links.length) return <p class="quiet pad">No transfers between the nodes of this map are known.</p>;
  const text = (id: string) => `${map.byId.get(id)?.label ?? ""} ${id}`;
  const { find } = view.value;
  const found = map.links.filter((link) => keeps.value(link) && (!find || matches(find, text(link.from), text(link.to), link.transfer_symbol)));
  return (
    <>
      <Find
        what="links"
        found={find || isFiltering.value ? `${found.length} of ${map.links.length}` : counted(map.links.length, "link")}
        onFind={(words) => show({ find: words })}
      />
      <LinkFilter />
      <LinkTable links={found} caption="Links of the map, by number of transfers" first={60} />
    </>
  );
}

/** The links of a card, below what the card says about them. */
export function LinkDetails({ title, links, caption, children }: { title: string; links: Link[]; caption: string; children?: ComponentChildren }) {
  return (
    <details open>
      <summary>{title} <span class="quiet">{span(links)}</span></summary>
      {children}
      <LinkTable links={links} caption={caption} />
    </details>
  );
}

export function LinkTable({ links, caption, first = 20 }: { links: Link[]; caption: string; first?: number }) {
  return (
    <table class="links-table">
      <caption class="sr">{caption}</caption>
      <thead>
        <tr>
          <th scope="col">From</th>
          <th scope="col">To</th>
          <th scope="col" class="num">Sent</th>
          <th scope="col">Between</th>
        </tr>
      </thead>
      <tbody>
        <Rows of={links} first={first}>
          {(link, at) => <LinkRow key={at} link={link} />}
        </Rows>
      </tbody>
    </table>
  );
}

function LinkRow({ link }: { link: Link }) {
  const [found, setFound] = useState<Transfer[] | string | null>(null);
  const toggle = () => {
    if (found) return setFound(null);
    const at = shown.value?.at ?? "";
    setFound("…");
    transfersOf(link, at).then(setFound, (error: unknown) => setFound(String(error)));
  };
  return (
    <>
      <tr>
        <td><End id={link.from} /></td>
        <td><End id={link.to} /></td>
        <td class="num">
          <Amount link={link} />
          <button type="button" class="plain small-text" aria-expanded={found !== null} onClick={toggle}>
            {link.transfers ?? "?"} {link.transfers === 1 ? "transfer" : "transfers"}
          </button>
        </td>
        <td class="dates">
          {date(link.first_date)}
          {link.last_date !== link.first_date && <small class="quiet">to {date(link.last_date)}</small>}
        </td>
      </tr>
      {found !== null && (
        <tr>
          <td colSpan={4}>{typeof found === "string" ? found : <Transfers of={found} chain={link.transfer_chain ?? ""} />}</td>
        </tr>
      )}
    </>
  );
}

function Transfers({ of, chain }: { of: Transfer[]; chain: string }) {
  if (!of.length) return <span class="quiet">Single transfers are in the warehouse for your own store only.</span>;
  const more = (of[0]?.found ?? 0) - of.length;
  return (
    <ul class="transfers" aria-label="Transfers of the link, newest first">
      {of.map((one, at) => (
        <li key={at}>
          {date(one.time, true)} <b title={exact(one.amount)}>{rough(one.amount)}</b> {one.token_id && <bdi>#{cut(one.token_id, 20)}</bdi>}{" "}
          {one.tx_hash && <Transaction chain={chain} hash={one.tx_hash} />}
        </li>
      ))}
      {more > 0 && <li class="quiet">and {more} earlier ones</li>}
    </ul>
  );
}

/** The hash of a transaction, which can be copied, with a link to a block explorer. */
export const Transaction = ({ chain, hash }: { chain: string; hash: string }) => (
  <span class="transaction"><Outside kind="transaction" chain={chain} value={hash} /> <Copy text={hash} what={`hash ${brief(hash)}`} /></span>
);

/** An address or hash, as a link to the block explorer of the chain if one is known. */
export function Outside({ kind, chain, value, says }: { kind: "address" | "transaction"; chain: string; value: string; says?: string }) {
  const page = pages.value[kind][chain];
  const text = says ?? brief(value);
  if (!page) return says ? null : <bdi class="code" title={value.slice(0, 200)}>{text}</bdi>;
  return (
    <a href={page.replace("{value}", encodeURIComponent(value))} target="_blank" rel="noreferrer noopener" title={value.slice(0, 200)}>
      <bdi class={says ? "" : "code"}>{text}</bdi>
    </a>
  );
}

function End({ id }: { id: string }) {
  const node = shown.value?.byId.get(id);
  return <Holder node={node ?? { address: id, label: null, is_cex: null, is_dex: null, is_contract: null }} />;
}

/** Describes links: number of transfers, first and last date. */
function span(links: Link[]): string {
  const firsts = links.flatMap((link) => link.first_date ?? []);
  const lasts = links.flatMap((link) => link.last_date ?? []);
  const transfers = links.reduce((sum, link) => sum + (link.transfers ?? 0), 0);
  if (!firsts.length) return counted(links.length, "link");
  const [first, last] = [date(Math.min(...firsts)), date(Math.max(...lasts))];
  const of = `${counted(links.length, "link")}, ${counted(transfers, "transfer")}`;
  return first === last ? `${of} on ${first}` : `${of} from ${first} to ${last}`;
}

