/** The table of holders at the chosen date, with search and sort, and the holders that the map does not draw. */
import { computed } from "@preact/signals";
import { useRef } from "preact/hooks";
import type { Node } from "../data";
import { brief, counted, cut, date, exact, kindOf, notDrawn, rough, share } from "../format";
import { isLeftOut } from "../map/scene";
import { instant, select, shown } from "../state";
import { added, show, view, type Sort } from "../view";
import { ByOwner } from "./owners";
import { ClusterMark, Find, Holder, matches, Rows } from "./parts";

const listed = computed(() => (shown.value?.nodes ?? []).filter((node) => node.rank !== null && node.kind !== "time"));

const ORDERS: Record<Sort, (one: Node, two: Node) => number> = {
  rank: (one, two) => (one.rank ?? 0) - (two.rank ?? 0),
  share: (one, two) => (two.share ?? 0) - (one.share ?? 0),
  cluster: (one, two) => (one.cluster_id ?? Infinity) - (two.cluster_id ?? Infinity) || (one.rank ?? 0) - (two.rank ?? 0),
  name: (one, two) => Number(!one.label) - Number(!two.label) || (one.label ?? one.address).localeCompare(two.label ?? two.address),
};

const found = computed(() => {
  const { find, sort, turned } = view.value;
  const rows = listed.value.filter((node) => matches(find, node.label, node.address)).sort(ORDERS[sort]);
  return turned ? rows.reverse() : rows;
});

export function Holders() {
  const at = instant.value?.at;
  if (!listed.value.length) return <p class="quiet pad">No holders are listed at {at ? date(at) : "this date"}.</p>;
  const { find } = view.value;
  return (
    <>
      <ByOwner />
      <Find
        what="holders"
        found={find ? `${found.value.length} of ${listed.value.length}` : counted(listed.value.length, "holder")}
        onFind={(text) => show({ find: text })}
      />
      <table>
        <caption class="sr">Holders at {at ? date(at) : ""}</caption>
        <thead>
          <tr>
            <Head sort="rank" class="num">#</Head>
            <Head sort="name" class="wide">Holder</Head>
            <Head sort="cluster">Cluster</Head>
            <Head sort="share" class="num">Share</Head>
            <th scope="col" class="num amount">Amount</th>
          </tr>
        </thead>
        <tbody>
          <Rows of={found.value}>{(node) => <Row key={node.id} node={node} />}</Rows>
        </tbody>
      </table>
      {!found.value.length && <p class="quiet pad">No holder’s label or address has all of these words.</p>}
    </>
  );
}

function Row({ node }: { node: Node }) {
  return (
    <tr class={view.value.node === node.id ? "chosen" : ""}>
      <td class="num quiet">{node.rank}</td>
      <td class="wide"><Holder node={node} /></td>
      <td><ClusterMark number={node.cluster_id} /></td>
      <td class="num">{share(node.share)}</td>
      <td class="num amount" title={exact(node.amount)}>{rough(node.amount)}</td>
    </tr>
  );
}

function Head({ sort, children, ...rest }: { sort: Sort; children: string; class?: string }) {
  const { sort: by, turned } = view.value;
  const order = by === sort ? (turned ? "descending" : "ascending") : "none";
  return (
    <th scope="col" aria-sort={order} {...rest}>
      <button type="button" class="plain" onClick={() => show({ sort, turned: by === sort && !turned })}>
        {children}
        <span aria-hidden="true" class="order">{order === "none" ? "" : turned ? "▴" : "▾"}</span>
      </button>
    </th>
  );
}

const excluded = computed(() => {
  const drawing = { ...view.value, added: new Set(added.value) };
  return (shown.value?.nodes ?? []).filter((node) => isLeftOut(node, drawing));
});

/** As many chips are seen without scrolling. */
const FEW_CHIPS = 1;

/** Scrolls a list by most of its width; from its end to its beginning. */
function goOn(list: HTMLElement): void {
  const isAtEnd = list.scrollLeft + list.clientWidth >= list.scrollWidth - 2;
  list.scrollTo({ left: isAtEnd ? 0 : list.scrollLeft + list.clientWidth * 0.8 });
}

/** Exchanges and contracts, which the map does not draw. */
export function Excluded() {
  const list = useRef<HTMLUListElement>(null);
  const text = notDrawn(shown.value?.nodes ?? [], excluded.value);
  if (!text) return null;
  return (
    <section class="excluded" aria-label="Not drawn">
      <h2>Not drawn: <span class="quiet">{text}</span></h2>
      <ul ref={list}>
        {excluded.value.map((node) => (
          <li key={node.id}>
            <button type="button" aria-pressed={view.value.node === node.id} title={node.address.slice(0, 200)} onClick={() => select(node.id)}>
              <HolderText node={node} /> <b>{share(node.share)}</b>
            </button>
          </li>
        ))}
      </ul>
      {excluded.value.length > FEW_CHIPS && <button type="button" class="on" aria-label="Next that are not drawn" title="Next" onClick={() => list.current && goOn(list.current)}>›</button>}
    </section>
  );
}

function HolderText({ node }: { node: Node }) {
  return (
    <>
      <bdi class="cut">{node.label ? cut(node.label, 28) : brief(node.address)}</bdi> <span class="kind">{kindOf(node)}</span>
    </>
  );
}
