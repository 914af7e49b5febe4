"use strict";
// Texts of models are only ever text nodes: nothing here writes HTML.
const data = JSON.parse(document.getElementById("data").textContent);
const rounds = data.rounds, find = id => document.getElementById(id);
const sources = {
  proposal: "proposed",
  random: "random problem",
  data: "from the data set",
  target: "target",
};
// Reason -> explanation. Reasons of other domains have none.
const whyProposal = {
  malformed: "no problem can be read in it",
  out_of_range: "numbers or target beyond the run's ranges",
  not_as_asked: "not the size that the prompt named",
  copies_target: "the target itself",
  unsolvable: "it has no solution",
  held_out: "kept for the evaluation",
  duplicate: "proposed before in this round",
  not_novel: "played in an earlier round",
};
const whyAnswer = {
  wrong_value: "another value than the target",
  wrong_numbers: "a number is added, left out or used twice",
  division_by_zero: "it divides by zero",
  not_an_integer: "a division leaves a remainder",
  no_answer: "no complete answer tag",
  empty: "nothing was written",
  too_long: "too many characters",
  bad_character: "a character that no expression has",
  malformed: "no expression",
  grammar: "the last move is not of the form a op b = c",
  operand: "the last move uses a number that is not there",
  range: "the last move has no legal result",
  arithmetic: "the result in the last move is wrong",
  missed: "the last number is not the target",
  too_many_moves: "cut at the most moves",
};
let at = -1, later = 0;

function make(tag, name, ...children) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  element.append(...children.filter(child => child !== null && child !== ""));
  return element;
}

const short = value => String(Math.abs(value) >= 1000 ? Math.round(value) : +value.toPrecision(3));
const said = (words, word) => Object.hasOwn(words, word) ? words[word] : "";
const signed = value => (value > 0 ? "+" : "") + short(value).replace("-", "−");
const counted = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;
// Each in a direction of its own, for a word of a run may be written from right to left.
const apart = words => words.flatMap((word, i) => i ? [" · ", make("bdi", "", word)] : [make("bdi", "", word)]);
const sorted = (list, by) => [...list].sort((a, b) => by(b) - by(a));  // the greatest first
const total = cards => cards.reduce((sum, card) => sum + (card.count || 1), 0);

function pay(card, unpaid = "not paid") {
  const parts = [];
  const add = (word, value) => parts.push(parts.length ? " " : "", make("span", "", `${word} `, make("b", "", value)));
  if ("solve_rate" in card) add("solve rate", short(card.solve_rate));
  if ("reward" in card) add("paid", short(card.reward));
  else parts.push(make("span", "", unpaid));
  if ("advantage" in card) add("advantage", signed(card.advantage));
  return make("div", "pay", ...parts);
}

function promptOf(text) {
  return text ? make("details", "", make("summary", "", "prompt"), make("pre", "", text)) : null;
}

function movesOf(card) {
  const list = make("ol", `moves${card.good ? " won" : ""}`);
  for (const [state, move] of card.moves)
    list.append(make("li", "", make("span", "state", state), make("b", "", move || "(nothing)")));
  return list;
}

function cardOf(card, badge, why) {
  const mark = badge ? make("bdi", `badge ${card.good ? "good" : "bad"}`, card.reason) : "";
  const facts = [why || "", card.player || "", card.count ? `${card.count} times` : ""].filter(fact => fact);
  return make("div", "card",
    mark || facts.length ? make("div", "facts", mark, " ", ...apart(facts)) : null,
    card.moves && card.moves.length ? movesOf(card) : make("pre", "", card.text || "\u00a0"),
    pay(card, badge || !card.good ? "not paid" : "no slot, not paid"), promptOf(card.prompt));
}

function groupOf(group, alone) {
  return make("div", "", alone ? null : make("h4", "", group.title),
    make("div", "cards", ...sorted(group.cards, card => card.good).map(card => cardOf(card, true, said(whyAnswer, card.reason)))),
    promptOf(group.prompt));
}

function problemOf(problem) {
  const answers = problem.groups.filter(group => group.title === "Answers").flatMap(group => group.cards);
  const right = total(answers.filter(card => card.good)), all = total(answers);
  const facts = [];
  if ("rung" in problem) facts.push(`rung ${problem.rung}`);
  if ("source" in problem) facts.push(said(sources, problem.source) || problem.source);
  if (all) facts.push(`${right} of ${counted(all, "logged answer")} right`);
  for (const group of problem.groups)
    if (group.title !== "Answers") facts.push(`${group.title.toLowerCase()}: ${total(group.cards)}`);
  const block = make("details", "problem",
    make("summary", "", make("code", "key", problem.problem), " ", make("span", "facts", ...apart(facts)), " ",
      make("span", "marks good", "●".repeat(Math.min(right, 32))),
      make("span", "marks bad", "○".repeat(Math.min(all - right, Math.max(0, 32 - right))))));
  if (problem.pay) {
    const line = pay(problem.pay);
    line.prepend("Its conjecturer: ");
    block.append(line);
  }
  block.append(...problem.groups.map(group => groupOf(group, problem.groups.length === 1)));
  Object.assign(block, {right, mixed: right > 0 && right < all});
  return block;
}

function tile(value, words) {
  return make("div", "tile", make("b", "", value), make("span", "", words));
}

function proposalsOf({cards, prompt}) {
  const valid = sorted(cards.filter(card => card.good), card => card.reward || 0), refused = new Map();
  const small = some => make("div", "cards small", ...some.map(card => cardOf(card, false)));
  for (const card of cards)
    if (!card.good) refused.set(card.reason, [...(refused.get(card.reason) || []), card]);
  const blocks = [valid.length ? small(valid) : make("p", "note", "None is valid.")];
  for (const [reason, same] of [...refused].sort((a, b) => total(b[1]) - total(a[1])))
    blocks.push(make("details", "", make("summary", "", `${total(same)} refused: `,
      ...apart([reason, said(whyProposal, reason)].filter(part => part))), small(same)));
  return make("section", "", make("h2", "", "Proposals"), ...blocks, promptOf(prompt));
}

function pageOf(round) {
  const {problems, others} = round, proposals = round.proposals.cards, parts = [], tiles = make("div", "tiles");
  const valid = total(proposals.filter(card => card.good)), played = proposals.filter(card => "solve_rate" in card);
  if (proposals.length) tiles.append(tile(`${valid} of ${total(proposals)}`, "logged proposals are valid"));
  if (played.length) tiles.append(tile(String(total(played)), "of them are played"));
  if (problems.length) tiles.append(tile(String(problems.length), "problems with logged answers"));
  if (round.answers) tiles.append(tile(`${round.right} of ${round.answers}`, "logged answers are right"));
  const gap = data.gaps[at];
  if (gap) parts.push(make("p", "note", `Left out before this one: ${gap}.`));
  if (round.cut) parts.push(make("p", "note", `${round.cut[0]} of its ${round.cut[1]} logged samples are shown.`));
  parts.push(tiles);
  const metrics = Object.entries(round.metrics).map(([name, value]) => `${name} ${short(value)}`).join(" · ");
  if (metrics) parts.push(make("p", "note", `Logged metrics: ${metrics}`));
  if (proposals.length) parts.push(proposalsOf(round.proposals));
  else parts.push(make("p", "note", "No model was asked for a proposal, or none was logged."));
  if (problems.length) {
    const open = make("button", "", "Open all");
    const blocks = sorted(problems.map(problemOf), block => block.right);
    (blocks.find(block => block.mixed) || blocks[0]).open = true;
    open.onclick = () => {
      const closed = blocks.some(block => !block.open);
      for (const block of blocks) block.open = closed;
      open.textContent = closed ? "Close all" : "Open all";
    };
    parts.push(make("h2", "", "Problems and answers"), open, ...blocks);
  }
  if (others.length) parts.push(make("h2", "", "Other texts"), ...others.map(group => groupOf(group, false)));
  return parts;
}

function course() {
  const known = rounds.map((round, index) => [index, round]).filter(([, round]) => round.answers);
  if (known.length < 3) return;
  const space = "http://www.w3.org/2000/svg", wide = Math.max(rounds.length - 1, 1);
  const svg = document.createElementNS(space, "svg"), mark = document.createElementNS(space, "line");
  const curve = document.createElementNS(space, "polyline");
  svg.id = "course";
  svg.setAttribute("viewBox", `0 -4 ${wide} 108`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", "Share of right answers among the logged ones, over the rounds");
  curve.setAttribute("points", known.map(([index, round]) => `${index},${100 - 100 * round.right / round.answers}`).join(" "));
  mark.id = "mark";
  mark.setAttribute("y1", -4);
  mark.setAttribute("y2", 104);
  svg.append(curve, mark);
  const title = document.createElementNS(space, "title");
  title.textContent = "Share of right answers among the logged ones, from 0 to 1";
  svg.prepend(title);
  svg.onclick = event => {
    const box = svg.getBoundingClientRect();
    show(Math.round((event.clientX - box.left) / box.width * wide));
  };
  find("bar").append(svg, make("div", "facts", "Right among logged answers, by round: from 0 to all"));
}

function show(index, keep) {
  index = Math.min(Math.max(index, 0), rounds.length - 1);
  if (index === at) return;
  at = index;
  const round = rounds[at];
  find("here").textContent = `${data.word} ${round.round}`;
  find("slider").value = at;
  find("slider").setAttribute("aria-valuetext", `${data.word} ${round.round}`);
  find("first").disabled = find("back").disabled = at === 0;
  find("next").disabled = find("last").disabled = at === rounds.length - 1;
  const mark = find("mark");
  if (mark) for (const end of ["x1", "x2"]) mark.setAttribute(end, at);
  find("round").replaceChildren(...pageOf(round));
  document.title = `${data.word} ${round.round} · ${data.name}`;
  clearTimeout(later);  // browsers refuse more than some hundred new addresses in half a minute
  if (!keep) later = setTimeout(() => history.replaceState(null, "", `#round-${round.round}`), 150);
}

function fromAddress() {
  const asked = /^#round-(\d+(?:\.\d+)?)$/.exec(location.hash);
  if (!asked) return show(Math.max(at, 0), true);
  const wanted = Number(asked[1]), off = rounds.map(round => Math.abs(round.round - wanted));
  const nearest = off.indexOf(Math.min(...off));
  show(nearest, true);
  if (off[nearest])
    find("round").prepend(make("p", "note", `${data.word} ${wanted} is not on this page; shown is the nearest one.`));
}

find("slider").max = rounds.length - 1;
find("first").onclick = () => show(0);
find("back").onclick = () => show(at - 1);
find("next").onclick = () => show(at + 1);
find("last").onclick = () => show(rounds.length - 1);
find("slider").oninput = event => show(Number(event.target.value));
addEventListener("hashchange", fromAddress);
addEventListener("keydown", event => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || event.target.type === "range") return;
  const to = {ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: rounds.length - 1}[event.key];
  if (to === undefined) return;
  event.preventDefault();
  show(to);
});
course();
fromAddress();
