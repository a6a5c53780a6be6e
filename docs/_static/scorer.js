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
