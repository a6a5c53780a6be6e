/** The list of clusters, and the members and evidence of the selected one. */
import type { Cluster, Node } from "../data";
import { count, date, exact, rough, share } from "../format";
import { instant, shown } from "../state";
import { ClusterMark, Holder, Rows } from "./parts";
import { LinkTable, span } from "./links";
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
          <th scope="col" class="num">Magic</th>
          <th scope="col" class="num">Share</th>
          <th scope="col" class="num">Amount</th>
        </tr>
      </thead>
      <tbody>
        <Rows of={map.clusters}>
          {(one) => (
            <tr key={one.cluster_id} class={view.value.cluster === one.cluster_id ? "chosen" : ""}>
              <td><ClusterMark number={one.cluster_id} /></td>
              <td class="num">{count(one.holder_count)}</td>
              <td class="num">{count(one.magic_node_count)}</td>
              <td class="num">{share(one.share)}</td>
              <td class="num" title={exact(one.amount)}>{rough(one.amount)}</td>
            </tr>
          )}
        </Rows>
      </tbody>
    </table>
  );
}

/** Members of a cluster, and its evidence: links between members, and links with time nodes. */
export function ClusterCard({ cluster }: { cluster: Cluster }) {
  const map = shown.value;
  const members = (map?.nodes ?? []).filter((node) => node.cluster_id === cluster.cluster_id && node.kind !== "time");
  const inside = new Set(members.map((node) => node.address));
  const evidence = (map?.links ?? []).filter(
    (link) => inside.has(link.from_address) && inside.has(link.to_address) && link.time_node === null,
  );
  const windows = timeLinks(members);
  return (
    <>
      <h2><ClusterMark number={cluster.cluster_id} called="Cluster " /></h2>
      <p class="lead">
        {count(cluster.holder_count)} holders hold <b>{share(cluster.share)}</b> of the supply,{" "}
        <span title={exact(cluster.amount)}>{rough(cluster.amount)}</span>. <MagicHoldings nodes={members.filter((node) => node.kind === "magic")} />
      </p>
      <details open>
        <summary>Members <span class="quiet">{members.length}</span></summary>
        <table>
          <thead class="sr"><tr><th scope="col">Member</th><th scope="col">Share</th></tr></thead>
          <tbody>
            <Rows of={members} first={6}>
              {(node) => <tr key={node.id}><td><Holder node={node} /></td><td class="num">{share(node.share)}</td></tr>}
            </Rows>
          </tbody>
        </table>
      </details>
      <details open>
        <summary>Evidence <span class="quiet">{span(evidence)}</span></summary>
        <LinkTable links={evidence} caption={`What connects the members of cluster ${cluster.cluster_id}`} />
      </details>
      {windows.length > 0 && (
        <details open>
          <summary>Same exchange at the same time <span class="quiet">{span(windows)}</span></summary>
          <LinkTable links={windows} caption="Links with time nodes" />
        </details>
      )}
    </>
  );
}

/** The holdings of the magic nodes of a cluster, which are not part of the cluster's share. */
function MagicHoldings({ nodes }: { nodes: Node[] }) {
  if (!nodes.length) return null;
  const connect = nodes.length === 1 ? "1 magic node connects them" : `${nodes.length} magic nodes connect them`;
  return <>{connect}; {magicHoldings(nodes)}.</>;
}

/** Returns a clause about what magic nodes hold, such as "31 of 40 hold another 4.50%". */
export function magicHoldings(nodes: Node[]): string {
  const held = nodes.filter((node) => node.share !== null);
  const together = held.reduce((sum, node) => sum + (node.share ?? 0), 0);
  if (!held.length) return nodes.length === 1 ? "it is not in the list of holders" : "none is in the list of holders";
  if (nodes.length === 1) return `it holds another ${share(together)}`;
  return `${held.length} of ${nodes.length} are in the list of holders, with another ${share(together)}`;
}

/** Returns links of members with time nodes that at least two of them used. */
function timeLinks(members: Node[]) {
  const map = shown.value;
  const ids = new Set(members.map((node) => node.id));
  const windows = (map?.nodes ?? []).filter((node) => node.kind === "time");
  return windows.flatMap((node) => {
    const links = (map?.linksOf.get(node.id) ?? []).filter((link) => ids.has(link.from) || ids.has(link.to));
    return new Set(links.map((link) => (link.from === node.id ? link.to : link.from))).size > 1 ? links : [];
  });
}
