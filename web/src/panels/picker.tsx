/** The token picker: a search box over name, symbol, address, chain and holders, and the list of matches. */
import { signal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { findTokens, type Token } from "../data";
import { brief, cut, name, share } from "../format";
import { showToken } from "../state";

const open = signal(false);
const found = signal<Token[]>([]);
const active = signal(0);
const problem = signal("");
/** The letters of the beginning of an address that find a wallet. */
const FEWEST_LETTERS = 4;
const isShort = signal(false);
let asked = 0;
let timer = 0;

export function Picker() {
  const box = useRef<HTMLInputElement>(null);
  const choose = (token: Token) => {
    open.value = false;
    box.current?.blur();
    showToken(token.chain, token.token_address, token.wallet ?? "");
  };
  const pressed = (event: KeyboardEvent) => {
    const last = found.value.length - 1;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (!open.value) look("");
      else active.value = Math.min(last, Math.max(0, active.value + (event.key === "ArrowDown" ? 1 : -1)));
      document.getElementById(`token-${active.value}`)?.scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter") {
      const chosen = found.value[active.value];
      if (open.value && chosen) choose(chosen);
    } else if (event.key === "Escape") open.value = false;
  };
  return (
    <div class="picker" role="search">
      <label class="sr" for="token">Token, by name, symbol, address or chain, or by the label or address of a holder</label>
      <input
        ref={box}
        id="token"
        role="combobox"
        aria-expanded={open.value}
        aria-controls="tokens"
        aria-autocomplete="list"
        aria-activedescendant={open.value && found.value.length ? `token-${active.value}` : undefined}
        autocomplete="off"
        spellcheck={false}
        maxLength={500}
        placeholder="Search token or wallet"
        onFocus={(event) => look(event.currentTarget.value)}
        onInput={(event) => look(event.currentTarget.value, 90)}
        onKeyDown={pressed}
        onBlur={(event) => {
          open.value = false;
          event.currentTarget.value = "";
        }}
      />
      <ul id="tokens" role="listbox" aria-label="Tokens" hidden={!open.value}>
        {found.value.map((token, at) => (
          <li
            key={`${token.chain} ${token.token_address}`}
            id={`token-${at}`}
            role="option"
            aria-selected={at === active.value}
            onPointerDown={(event) => {
              event.preventDefault(); // the box keeps the focus
              choose(token);
            }}
          >
            <TokenLine token={token} />
          </li>
        ))}
        {open.value && !found.value.length && (
          <li role="option" aria-selected="false" aria-disabled="true" class="none">
            {problem.value || "No token matches all of these words."}
          </li>
        )}
        {isShort.value && <li role="option" aria-selected="false" aria-disabled="true" class="none">Type at least {FEWEST_LETTERS} characters of a wallet’s address or label to find it.</li>}
        {(found.value[0]?.found ?? 0) > found.value.length && (
          <li role="option" aria-selected="false" aria-disabled="true" class="none">
            {found.value.length} of {found.value[0]?.found}; type more to narrow them
          </li>
        )}
      </ul>
    </div>
  );
}

function TokenLine({ token }: { token: Token }) {
  const maps = token.maps === 1 ? "1 date" : `${token.maps} dates`;
  const address = <bdi class="code">{brief(token.token_address)}</bdi>;
  const isNamed = !!token.name && token.name !== token.token_address; // a store without a name has the address
  return (
    <>
      <span class="token-name">
        {isNamed ? <bdi class="cut" title={(token.name ?? "").slice(0, 300)}>{cut(token.name ?? "", 60)}</bdi> : address}{" "}
        {!token.token_address.startsWith(token.symbol ?? "") && <bdi class="symbol">{cut(token.symbol ?? "", 16)}</bdi>}
      </span>
      <span class="token-place">
        <bdi>{cut(token.chain, 20)}</bdi> · {isNamed && <>{address} · </>}{token.maps ? maps : "no map"}
        {token.wallet !== null && <> · <bdi>{name({ address: token.wallet, label: token.wallet_label })}</bdi> holds {share(token.share)}</>}
      </span>
    </>
  );
}

function look(text: string, wait = 0): void {
  clearTimeout(timer);
  const mine = ++asked;
  timer = setTimeout(async () => {
    try {
      const tokens = await findTokens(text);
      if (mine !== asked) return;
      [found.value, active.value, problem.value] = [tokens, 0, ""];
      isShort.value = text.trim() !== "" && text.trim().length < FEWEST_LETTERS;
    } catch (error) {
      [found.value, problem.value] = [[], error instanceof Error ? error.message : String(error)];
    }
    open.value = document.activeElement?.id === "token";
  }, wait);
}
