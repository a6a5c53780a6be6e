/** Details of the selection: a holder and its address, or a cluster and its evidence. */
import { useEffect, useState } from "preact/hooks";
import { findTokens, giveName, isSaved, pages, periods, refresh, type Link, type Node, type Period, type Token } from "../data";
import { brief, count, counted, cut, date, exact, isExcluded, monthOf, NOTHING, rough, share } from "../format";
import { cluster, evidence, instant, isFiltering, isFolded, keeps, path, say, selected, showToken, shown } from "../state";
import { show, view } from "../view";
import { Counterparties, OnMap } from "./added";
import { ClusterCard } from "./clusters";
import { OwnerCard } from "./owners";
import { LinkDetails, LinkTable, Outside } from "./links";
import { LinkFilter } from "./filter";
import { ClusterMark, Copy, Fact, Kinds, matches, Rows } from "./parts";

export function Selection() {
  const { value: node } = selected;
  const { value: group } = cluster;
  const { node: id, cluster: number } = view.value;
  if (!shown.value || (!id && !number)) return null;
  return (
    <section class={isFolded.value ? "card folded" : "card"} aria-label="Selection" onClick={() => (isFolded.value = false)}>
      <button type="button" class="close" aria-label="End the selection" onClick={() => show({ node: "", cluster: 0 })}>×</button>
      {group && evidence.value ? <ClusterCard key={group.cluster_id} cluster={group} evidence={evidence.value} /> : node?.owner ? (
        <OwnerCard key={node.id} node={node} owner={node.owner} />
      ) : node ? (
        <HolderCard key={node.id} node={node} />
      ) : (
        <>
          <h2>{id ? <bdi class="code">{brief(id)}</bdi> : `Cluster ${number}`}</h2>
          <p class="quiet">Not there at {date(shown.value.at)}.</p>
        </>
      )}
    </section>
  );
}

function HolderCard({ node }: { node: Node }) {
  const links = (shown.value?.linksOf.get(node.id) ?? []).filter(keeps.value);
  return (
    <>
      <h2><bdi class="cut" title={(node.label ?? "").slice(0, 300)}>{node.label ? cut(node.label, 60) : kindOf(node)}</bdi><Kinds node={node} /></h2>
      <p class="address"><code dir="ltr">{cut(node.address, 120)}</code><Copy text={node.address} what="address" /> <Outside kind="address" chain={view.value.chain} value={node.address} says="Block explorer" /></p>
      <dl class="facts">
        {node.rank !== null && <Fact name="Rank">{count(node.rank)}</Fact>}
        {node.kind !== "time" && node.rank === null && <Fact name="Share">not in the list of holders</Fact>}
        {node.share !== null && <Fact name="Share">{share(node.share)}</Fact>}
        {node.cluster_id !== null && <Fact name="Cluster"><ClusterMark number={node.cluster_id} /></Fact>}
        {node.degree !== null && <Fact name="Counterparties">{count(node.degree)}</Fact>}
        {node.first_activity !== null && <Fact name="First seen">{date(node.first_activity)}</Fact>}
        {node.amount !== null && <Fact name="Amount" wide><Exact amount={node.amount} /></Fact>}
      </dl>
      {node.is_paid_label && <p class="quiet">The label was submitted by the community.</p>}
      <p class="acts">
        {(node.kind === "holder" || isExcluded(node)) && <OnMap address={node.address} />}
        {!isSaved && node.kind !== "time" && <Counterparties address={node.address} />}
      </p>
      {pages.value.can_rename && !isSaved && node.kind !== "time" && <Naming key={`name ${node.id}`} node={node} />}
      {!isSaved && node.kind !== "time" && <Months address={node.address} />}
      <Path key={`path ${node.id}`} node={node} />
      <Elsewhere key={node.address} address={node.address} />
      {links.length > 0 ? (
        <LinkDetails title="Links" links={links} caption="Links of the selected node">
          {view.value.tab !== "links" && <LinkFilter />}
          <Flow links={links} id={node.id} />
        </LinkDetails>
      ) : (
        <p class="quiet">{isFiltering.value ? "No transfers with wallets on this map pass the filter." : "Links on this map: none."}</p>
      )}
    </>
  );
}

/** An exact amount, with a smaller fraction. */
function Exact({ amount }: { amount: string }) {
  const [whole, fraction] = exact(amount).split(".");
  return <span>{whole}{fraction && <small>.{fraction}</small>}</span>;
}

/** What the wallet got and sent of the token, in the shown links. */
function Flow({ links, id }: { links: Link[]; id: string }) {
  const { chain, token } = view.value;
  const own = links.filter((link) => link.transfer_token === token && link.transfer_chain === chain && link.amount !== null);
  if (!own.length) return null;
  const total = (some: Link[]) => `${rough(String(some.reduce((sum, link) => sum + Number(link.amount), 0)))} in ${counted(some.reduce((sum, link) => sum + (link.transfers ?? 0), 0), "transfer")}`;
  return <p class="quiet">Got {total(own.filter((link) => link.to === id))}, sent {total(own.filter((link) => link.from === id))} of this token, with wallets on this map.</p>;
}

/** A form that stores the wallet's name. */
function Naming({ node }: { node: Node }) {
  const [note, setNote] = useState("");
  const submitted = (event: SubmitEvent) => {
    event.preventDefault();
    const name = String(new FormData(event.currentTarget as HTMLFormElement).get("name")).trim();
    const { chain, token } = view.peek();
    setNote("Storing…");
    const stored = async () => {
      await giveName(node.address, name);
      await refresh(chain, token);
      say(name ? `Stored the name ${cut(name, 60)}.` : "Removed the name.");
      setNote("");
    };
    stored().catch((error: Error) => setNote(error.message));
  };
  return (
    <details>
      <summary>{node.label ? "Rename" : "Give a name"}</summary>
      <form class="find" onSubmit={submitted}>
        <input name="name" aria-label="Name of the wallet" placeholder="Empty: no name of yours" maxLength={200} autocomplete="off" defaultValue={node.label ?? ""} />
        <button type="submit">Store</button>
      </form>
      {note && <p class="quiet" role="status">{note}</p>}
    </details>
  );
}

/** What the wallet got and sent of the token in each month, from all of its transfers. */
function Months({ address }: { address: string }) {
  const [found, setFound] = useState<Period[]>([]);
  const { chain, token } = view.value;
  const at = instant.value?.at ?? "";
  useEffect(() => {
    periods(chain, token, address, at).then(setFound, () => setFound([]));
  }, [chain, token, address, at]);
  const months = [...new Set(found.map((one) => one.month))];
  if (!months.length) return null;
  const cell = (month: number, isReceived: boolean) => {
    const period = found.find((one) => one.month === month && one.is_received === isReceived);
    return <td class="num">{period ? <>{rough(period.amount)} <small class="quiet">in {counted(period.transfers, "transfer")}</small></> : NOTHING}</td>;
  };
  return (
    <details>
      <summary>In and out by month <span class="quiet">{counted(months.length, "month")}</span></summary>
      <table>
        <caption class="sr">Got and sent in each month</caption>
        <thead><tr><th scope="col">Month</th><th scope="col" class="num">Got</th><th scope="col" class="num">Sent</th></tr></thead>
        <tbody>
          <Rows of={months} first={12}>
            {(month) => <tr key={month}><th scope="row">{monthOf(month)}</th>{cell(month, true)}{cell(month, false)}</tr>}
          </Rows>
        </tbody>
      </table>
    </details>
  );
}

/** A form that highlights the shortest path to another node of the map, and the links along it. */
function Path({ node }: { node: Node }) {
  const map = shown.value;
  const { to } = view.value;
  const steps = path.value;
  const submitted = (event: SubmitEvent) => {
    event.preventDefault();
    const text = String(new FormData(event.currentTarget as HTMLFormElement).get("to")).trim();
    const found = text ? map?.nodes.find((one) => one.id !== node.id && one.kind !== "time" && matches(text, one.label, one.address)) : undefined;
    show({ to: found?.id ?? text });
  };
  const links = (steps ?? []).flatMap((id, step) => (map?.linksOf.get(id) ?? []).find((link) => step > 0 && keeps.value(link) && [link.from, link.to].includes(steps?.[step - 1] ?? "")) ?? []);
  return (
    <details class="path" open={to !== ""}>
      <summary>Path to another wallet</summary>
      <form class="find" onSubmit={submitted}>
        <input name="to" type="search" aria-label="Label or address of the other wallet" placeholder="Label or a part of an address" maxLength={200} spellcheck={false} autocomplete="off" defaultValue={to} />
        <button type="submit">Find</button>
      </form>
      {to && !steps && <p class="quiet">{map?.byId.has(to) ? "No links of this map connect the two." : "No node of this map has this label or address."}</p>}
      {steps && <LinkTable links={links} caption={`Path of ${counted(steps.length - 1, "step")}`} />}
    </details>
  );
}

/** The other tokens whose newest list of holders has the address. Each leads there, with the address selected. */
function Elsewhere({ address }: { address: string }) {
  const [tokens, setTokens] = useState<Token[]>([]);
  useEffect(() => {
    void findTokens(address).then(setTokens, () => undefined);
  }, [address]);
  const { chain, token } = view.value;
  const others = tokens.filter((one) => one.wallet === address && (one.chain !== chain || one.token_address !== token));
  if (!others.length) return null;
  return (
    <details>
      <summary>Holds other tokens too <span class="quiet">{others.length}</span></summary>
      <ul class="elsewhere">
        {others.map((one) => (
          <li key={`${one.chain} ${one.token_address}`}>
            <button type="button" class="plain" onClick={() => showToken(one.chain, one.token_address, address)}>
              <bdi>{cut(one.symbol || one.name || brief(one.token_address), 30)}</bdi>
            </button>{" "}
            <span class="quiet"><bdi>{cut(one.chain, 20)}</bdi>, {share(one.share)}</span>
          </li>
        ))}
      </ul>
    </details>
  );
}

const kindOf = (node: Node) => (node.kind === "magic" ? "Wallet that links holders" : node.kind === "time" ? `Time window ${node.time_node}` : node.rank === null ? "Address" : "Holder");
