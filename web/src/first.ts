/** Sends the requests of the first view while the rest of the page is loaded. */
import { askedFor } from "./table";

declare global {
  /** Answers that were requested early, by path and query. Each is used once. */
  var early: Map<string, Promise<Response>> | undefined;
}

const early = (globalThis.early = new Map<string, Promise<Response>>());

function ask(path: string, query: Record<string, string>): void {
  const name = askedFor(path, query);
  const answer = fetch(`api/${name}`);
  answer.catch(() => undefined); // whoever uses it reports it
  early.set(name, answer);
}

const given = new URLSearchParams(location.search);
const [chain = "", token = "", at = ""] = ["chain", "token", "at"].map((name) => given.get(name) ?? "");
if (token) {
  ask("past", { chain, token }); // first: it takes longest
  ask("history", { chain, token });
  if (!given.has("add") && /^(\d{8}T\d{6}Z)?$/.test(at)) ask("map", { chain, token, ...(at && { at }) });
} else ask("tokens", { q: "" });
