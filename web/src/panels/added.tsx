/** Addresses that someone adds to the map: a form, and the added addresses. */
import { useEffect, useState } from "preact/hooks";
import { counterparties, type Counterparty } from "../data";
import { brief, counted } from "../format";
import { instant, say, select, shown } from "../state";
import { added, addresses, show, view } from "../view";

const change = (all: string[]) => show({ add: addresses(all.join()).join() }, true);

export function Added() {
  const submitted = (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const wanted = addresses(String(new FormData(form).get("addresses")));
    if (!wanted.length) return;
    change([...added.peek(), ...wanted]);
    say(`Added ${wanted.length === 1 ? "an address" : `${wanted.length} addresses`} to the map.`);
    form.reset();
  };
  return (
    <form class="added" aria-label="Added addresses" onSubmit={submitted}>
      <input name="addresses" aria-label="Addresses to add to the map" placeholder="Add addresses" maxLength={5_000} spellcheck={false} autocomplete="off" />
      <button type="submit">Add</button>
      {added.value.map((one) => (
        <span key={one} class="chip">
          <button type="button" class="plain" title={one.slice(0, 200)} onClick={() => select(one)}><bdi class="code">{brief(one)}</bdi></button>
          <button type="button" class="plain" aria-label={`Remove ${one.slice(0, 200)} from the map`} onClick={() => remove(one)}>×</button>
        </span>
      ))}
    </form>
  );
}

const remove = (address: string) => change(added.peek().filter((one) => one !== address));

/** A button that adds the wallets with the most transfers from and to a wallet. */
export function Counterparties({ address }: { address: string }) {
  const [found, setFound] = useState<Counterparty[]>([]);
  const { chain, token } = view.value;
  const at = instant.value?.at ?? "";
  useEffect(() => {
    counterparties(chain, token, address, at).then(setFound, () => undefined);
  }, [chain, token, address, at]);
  const others = found.filter((one) => !shown.value?.byId.has(one.address) || shown.value.byId.get(one.address)?.kind === "holder").filter((one) => !added.value.includes(one.address));
  if (!others.length) return null;
  return (
    <button type="button" class="small" title={others.map((one) => `${brief(one.address)}: ${one.transfers_in} in, ${one.transfers_out} out`).join("\n")} onClick={() => change([...added.peek(), ...others.map((one) => one.address)])}>
      Add {counted(others.length, "counterparty").replace("partys", "parties")} to the map
    </button>
  );
}

/** A button that adds an address to the map, or removes it. */
export function OnMap({ address }: { address: string }) {
  const isAdded = added.value.includes(address);
  return (
    <button type="button" class="small" onClick={() => (isAdded ? remove(address) : change([...added.peek(), address]))}>
      {isAdded ? "Remove from the map" : "Add to the map"}
    </button>
  );
}
