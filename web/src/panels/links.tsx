/** Tables of links: of the map, of a holder, or the evidence of a cluster. */
import type { Link } from "../data";
import { date } from "../format";
import { Amount } from "../map/map";
import { shown } from "../state";
import { show, view } from "../view";
import { Find, Holder, matches, Rows } from "./parts";

export function Links() {
  const map = shown.value;
  if (!map?.links.length) return <p class="quiet pad">No transfers between the nodes of this map are known.</p>;
  const text = (id: string) => `${map.byId.get(id)?.label ?? ""} ${id}`;
  const { find } = view.value;
  const found = map.links.filter((link) => !find || matches(find, text(link.from), text(link.to), link.transfer_symbol));
  return (
    <>
      <Find
        what="links"
        found={find ? `${found.length} of ${map.links.length}` : `${map.links.length} links`}
        onFind={(words) => show({ find: words })}
      />
      <LinkTable links={found} caption="Links of the map, by number of transfers" first={60} />
    </>
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
          {(link, at) => (
            <tr key={at}>
              <td><End id={link.from} /></td>
              <td><End id={link.to} /></td>
              <td class="num">
                <Amount link={link} />
                <small class="quiet">{link.transfers ?? "?"} {link.transfers === 1 ? "transfer" : "transfers"}</small>
              </td>
              <td class="dates">
                {date(link.first_date)}
                {link.last_date !== link.first_date && <small class="quiet">to {date(link.last_date)}</small>}
              </td>
            </tr>
          )}
        </Rows>
      </tbody>
    </table>
  );
}

function End({ id }: { id: string }) {
  const node = shown.value?.byId.get(id);
  return <Holder node={node ?? { address: id, label: null, is_cex: null, is_dex: null, is_contract: null }} />;
}

/** Describes links: number of transfers, first and last date. */
export function span(links: Link[]): string {
  const firsts = links.flatMap((link) => link.first_date ?? []);
  const lasts = links.flatMap((link) => link.last_date ?? []);
  const transfers = links.reduce((sum, link) => sum + (link.transfers ?? 0), 0);
  if (!firsts.length) return `${links.length} links`;
  const [first, last] = [date(Math.min(...firsts)), date(Math.max(...lasts))];
  const of = `${links.length} ${links.length === 1 ? "link" : "links"}, ${transfers} ${transfers === 1 ? "transfer" : "transfers"}`;
  return first === last ? `${of} on ${first}` : `${of} from ${first} to ${last}`;
}

