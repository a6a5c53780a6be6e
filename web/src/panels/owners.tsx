/** Owners of several wallets: the card of one, and the concentration by wallet and by owner. */
import { useEffect, useState } from "preact/hooks";
import { FIGURES } from "../columns";
import { owners, type Node, type Owner, type OwnerFigures } from "../data";
import { count, counted, date, exact, figure, name, share } from "../format";
import { history, instant, isByOwner, keeps, shown } from "../state";
import { LinkDetails, Outside } from "./links";
import { ClusterMark, Copy, Fact, Rows } from "./parts";
import { added, view } from "../view";

/** The wallets of one owner, with the confidence that each belongs to it, and the transfers with others. */
export function OwnerCard({ node, owner: { wallets, members } }: { node: Node; owner: Owner }) {
  const links = (shown.value?.linksOf.get(node.id) ?? []).filter(keeps.value);
  const sure = members.map((one) => one.confidence);
  return (
    <>
      <h2>One owner, {counted(wallets, "wallet")}</h2>
      <p class="lead">
        Together {share(node.share)} of the supply. Each wallet belongs to the owner with a confidence of {percent(Math.min(...sure))} or more.
      </p>
      <dl class="facts">
        {node.rank !== null && <Fact name="Rank">{count(node.rank)}</Fact>}
        {node.cluster_id !== null && <Fact name="Cluster"><ClusterMark number={node.cluster_id} /></Fact>}
        <Fact name="Amount" wide>{exact(node.amount)}</Fact>
      </dl>
      <details open>
        <summary>Wallets <span class="quiet">{members.length < wallets ? `the ${members.length} largest of ${count(wallets)}` : count(wallets)}</span></summary>
        <table>
          <thead><tr><th scope="col">Wallet and evidence</th><th scope="col" class="num">Confidence</th><th scope="col" class="num">Share</th></tr></thead>
          <tbody>
            <Rows of={members} first={8}>
              {(one) => (
                <tr key={one.address}>
                  <td><span title={one.address}><bdi class={one.label ? "cut" : "code"}>{name(one)}</bdi></span> <Copy text={one.address} what="address" /> <Outside kind="address" chain={view.value.chain} value={one.address} says="↗" /><p class="quiet">{one.kinds.split(", ").map((kind) => EVIDENCE[kind] ?? kind).join(", ")}</p></td>
                  <td class="num">{percent(one.confidence)}</td>
                  <td class="num">{share(one.share)}</td>
                </tr>
              )}
            </Rows>
          </tbody>
        </table>
      </details>
      {links.length > 0 && <LinkDetails title="Links with others" links={links} caption="Links of the owner’s wallets" />}
    </>
  );
}

/** The kinds of evidence in words. */
const EVIDENCE: Record<string, string> = {
  direct: "transfers with each other",
  sweep: "emptied into one wallet",
  first_funder: "same first funder",
  disperse: "paid in one transaction",
  funding_chain: "funded one after the other",
  deposit: "same deposit address",
  in_step: "act in the same minutes",
};

const percent = (part: number) => `${Math.round(part * 100)}%`;

const COUNTED: Record<OwnerFigures["holders"], string> = { wallets: "By wallet", "certain owners": "By certain owner", owners: "By owner" };

const BY_OWNER = ["top_10_share", "gini_index", "herfindahl_hirschman_index", "nakamoto_coefficient"] as const;

/** The concentration among all wallets and among all owners, if the map shows owners. */
export function ByOwner() {
  const [found, setFound] = useState<OwnerFigures[]>([]);
  const [of, at, isOn, add] = [history.value, instant.value?.at, isByOwner.value, added.value.join()];
  useEffect(() => {
    if (of && at && isOn) owners(of.chain, of.address, at, add).then(({ figures }) => setFound(figures), () => setFound([]));
    else setFound([]);
  }, [of, at, isOn, add]);
  if (!found.length) return null;
  if (!shown.value?.nodes.some((node) => node.owner)) return <p class="quiet">No owner with several wallets here.</p>;
  return (
    <table class="figures-table">
      <caption>
        By wallet and by owner <span class="quiet">all holders but exchanges and contracts; owners as found on {date(found[0]?.searched ?? null)}</span>
      </caption>
      <thead><tr><th scope="col" />{found.map((one) => <th key={one.holders} scope="col" class="num">{COUNTED[one.holders]}</th>)}</tr></thead>
      <tbody>
        <tr><th scope="row">Holders</th>{found.map((one) => <td key={one.holders} class="num">{count(one.number)}</td>)}</tr>
        {BY_OWNER.map((one) => (
          <tr key={one}><th scope="row">{FIGURES[one].short}</th>{found.map((of) => <td key={of.holders} class="num">{figure(one, of[one])}</td>)}</tr>
        ))}
      </tbody>
    </table>
  );
}
