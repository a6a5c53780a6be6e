/** The requests of the first view, which leave before the rest of the page is evaluated. */

/** Returns path and query of a request. */
export const askedFor = (path: string, query: Record<string, string>) => `${path}?${new URLSearchParams(query)}`;

/** Answers that were requested early, by path and query. Each is used once. */
export const first = new Map<string, Promise<Response>>();

function ask(path: string, query: Record<string, string>): void {
  const name = askedFor(path, query);
  const answer = fetch(`api/${name}`);
  answer.catch(() => undefined); // whoever uses it reports it
  first.set(name, answer);
}

const given = new URLSearchParams(location.search);
const [chain = "", token = "", at = ""] = ["chain", "token", "at"].map((name) => given.get(name) ?? "");
if (!document.getElementById("answers")) {
  if (token) {
    ask("history", { chain, token });
    if (!given.has("add") && /^(\d{8}T\d{6}Z)?$/.test(at)) ask("map", { chain, token, ...(at && { at }) });
  } else ask("tokens", { q: "" });
}
