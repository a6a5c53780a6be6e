// Ranks the results of the site's search: first pages whose title has the words, decision records last.
const asked = (new URLSearchParams(location.search).get("q") || "").toLowerCase();
var Scorer = {
  score: ([page, title, , , score]) => {
    const place = title.toLowerCase().indexOf(asked);
    return score + (place === 0 ? 20 : place > 0 ? 10 : 0) - (page.startsWith("decisions") ? 20 : 0);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

// A page that is opened as a file may not read other files, from which the excerpts of results come: a script has them.
if (location.protocol === "file:") {
  const texts = new Promise((done) => {
    const script = document.createElement("script");
    script.src = new URL("page_texts.js", document.currentScript?.src || new URL("_static/", location.href));
    script.onload = () => done(globalThis.pageTexts);
    document.head.append(script);
  });
  globalThis.fetch = async (page) => {
    const name = new URL(page, location.href).pathname;
    const [, text = ""] = Object.entries(await texts).find(([path]) => name.endsWith(`/${path}`)) || [];
    const main = document.createElement("div");
    main.setAttribute("role", "main");
    main.textContent = text;
    return new Response(main.outerHTML);
  };
}
