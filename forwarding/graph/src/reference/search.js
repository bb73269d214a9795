const field = document.querySelector("input");
const articles = [...document.querySelectorAll("article")].map(article => [article, article.textContent.toLowerCase()]);
field.addEventListener("input", () => {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const [article, text] of articles) {
    article.hidden = !words.every(word => text.includes(word));
    document.querySelector(`nav a[href="#${article.id}"]`).parentElement.hidden = article.hidden;
  }
  for (const group of document.querySelectorAll("nav section")) {
    group.hidden = !group.querySelector("li:not([hidden])");
  }
  document.getElementById("none").hidden = articles.some(([article]) => !article.hidden);
});
document.addEventListener("keydown", event => {
  if (event.key === "/" && document.activeElement !== field) { event.preventDefault(); field.focus(); }
});
