/** The list of clusters, and the members and evidence of the selected one. */
import { Fragment } from "preact";
import { useEffect, useState } from "preact/hooks";
import { transfersOf, type Cluster, type Link, type Node, type Transfer } from "../data";
import { count, counted, date, exact, rough, share } from "../format";
import { instant, sentenceOf, shown, type Evidence } from "../state";
import { ClusterMark, Holder, Rows } from "./parts";
import { LinkDetails, Transaction } from "./links";
import { view } from "../view";

export function Clusters() {
  const map = shown.value;
  if (!map?.clusters.length) {
    return <p class="quiet pad">No holders are connected with each other at {instant.value ? date(instant.value.at) : "this date"}.</p>;
  }
  return (
    <table>
      <caption class="sr">Clusters, the largest first</caption>
      <thead>
        <tr>
          <th scope="col">Cluster</th>
          <th scope="col" class="num">Holders</th>
          <th scope="col" class="num" title="Wallets that link the holders">Linking wallets</th>
          <th scope="col" class="num">Share</th>
          <th scope="col" class="num amount">Amount</th>
        </tr>
      </thead>
      <tbody>
        <Rows of={map.clusters}>
          {(one) => (
            <Fragment key={one.cluster_id}>
            <tr class={view.value.cluster === one.cluster_id ? "chosen why-head" : "why-head"}>
              <td><ClusterMark number={one.cluster_id} /></td>
              <td class="num">{count(one.holder_count)}</td>
              <td class="num">{count(one.magic_node_count)}</td>
              <td class="num">{share(one.share)}</td>
              <td class="num amount" title={exact(one.amount)}>{rough(one.amount)}</td>
            </tr>
            <tr class={view.value.cluster === one.cluster_id ? "chosen" : ""}>
              <td colSpan={5} class="quiet"><bdi>{sentenceOf(one)}</bdi></td>
            </tr>
            </Fragment>
          )}
        </Rows>
      </tbody>
    </table>
  );
}

/** Why the holders of a cluster are together, its members, and all links between them. */
export function ClusterCard({ cluster, evidence: { members, links, strongest } }: { cluster: Cluster; evidence: Evidence }) {
  return (
    <>
      <h2><ClusterMark number={cluster.cluster_id} called="Cluster " /></h2>
      <p class="lead">
        {counted(cluster.holder_count, "holder")} {cluster.holder_count === 1 ? "holds" : "hold"} <b>{share(cluster.share)}</b> of the supply,{" "}
        <span title={exact(cluster.amount)}>{rough(cluster.amount)}</span>. <LinkingWallets nodes={members.filter((node) => node.kind === "magic")} />
      </p>
      <p class="why"><b>Why together</b> <bdi>{sentenceOf(cluster)}</bdi> {strongest && <Hash link={strongest} />}</p>
      <details open>
        <summary>Members <span class="quiet">{members.length}</span></summary>
        <table>
          <thead class="sr"><tr><th scope="col">Member</th><th scope="col">Share</th></tr></thead>
          <tbody>
            <Rows of={members} first={6}>
              {(node) => <tr key={node.id}><td class="wide"><Holder node={node} /></td><td class="num">{share(node.share)}</td></tr>}
            </Rows>
          </tbody>
        </table>
      </details>
      {links.length > 0 && <LinkDetails title="Evidence" links={links} caption={`What connects the members of cluster ${cluster.cluster_id}`} />}
    </>
  );
}

/** The hash of the last transfer of a link, if the warehouse has it. */
function Hash({ link }: { link: Link }) {
  const [transfer, setTransfer] = useState<Transfer | undefined>();
  useEffect(() => {
    const until = (one: Transfer) => link.last_date === null || one.time <= link.last_date;
    transfersOf(link, shown.peek()?.at ?? "").then((found) => setTransfer(found.find((one) => one.tx_hash && until(one))), () => undefined);
  }, [link]);
  return transfer?.tx_hash ? <Transaction chain={link.transfer_chain ?? ""} hash={transfer.tx_hash} /> : null;
}

/** The holdings of the wallets that link holders, which are not part of the cluster's share. */
function LinkingWallets({ nodes }: { nodes: Node[] }) {
  if (!nodes.length) return null;
  return <>{nodes.length === 1 ? "1 wallet links" : `${nodes.length} wallets link`} them; {linkingHoldings(nodes)}.</>;
}

/** Returns a clause about what linking wallets hold, such as "31 of 40 hold another 4.50%". */
function linkingHoldings(nodes: Node[]): string {
  const held = nodes.filter((node) => node.share !== null);
  const together = held.reduce((sum, node) => sum + (node.share ?? 0), 0);
  if (!held.length) return nodes.length === 1 ? "it is not in the list of holders" : "none is in the list of holders";
  if (nodes.length === 1) return `it holds another ${share(together)}`;
  return `${held.length} of ${nodes.length} are in the list of holders, with another ${share(together)}`;
}
