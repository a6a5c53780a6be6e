/** Addresses that someone adds to the map: a form, and the added addresses. */
import { brief } from "../format";
import { say, select } from "../state";
import { added, addresses, show } from "../view";

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
      <input name="addresses" aria-label="Addresses to add to the map" placeholder="Add addresses to the map" maxLength={5_000} spellcheck={false} autocomplete="off" />
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

/** A button that adds an address to the map, or removes it. */
export function OnMap({ address }: { address: string }) {
  const isAdded = added.value.includes(address);
  return (
    <button type="button" class="small" onClick={() => (isAdded ? remove(address) : change([...added.peek(), address]))}>
      {isAdded ? "Remove from the map" : "Add to the map"}
    </button>
  );
}
