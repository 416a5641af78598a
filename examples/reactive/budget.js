// The budget of a year: 200 formulas over a plan and what was really spent.
//
//   lope recipes run examples/reactive/budget.js --into home/budget --argument @examples/reactive/budget.json
//   lope cells get home/budget/year
//   lope recipes run --into home/budget --argument @next.json      # in place: nothing is restarted
//
// What is not in `actual` is as planned. A change runs the formulas that it reaches and no others:
// `lope recipes why home/budget`.
(b) => {
  b.name("budget");
  const categories = ["rent", "food", "travel", "health", "school", "phone", "fun", "gifts"];
  const months = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
  const sum = (cells, name) =>
    b.compute({ cells }, ({ cells }) => cells.reduce((total, cell) => total + cell, 0), b.internal(name));

  // Each month: 14 formulas.
  const spent = {}, earned = [], out = [], left = [], saved = [], share = [], sign = [];
  for (const category of categories) spent[category] = [];
  for (const m of months) {
    for (const category of categories) {
      const inputs = { plan: b.argument("plan", category), actual: b.argument("actual", String(m), category) };
      const made = ({ plan, actual }) => actual ?? plan ?? 0;
      spent[category].push(b.compute(inputs, made, b.internal(`${category}${m}`)));
    }
    const income = { salary: b.argument("salary"), other: b.argument("other"), raise: b.argument("raise"), m };
    earned.push(b.compute(income, ({ salary, other, raise, m }) => (m < 6 ? salary : salary + raise) + other,
      b.internal(`earned${m}`)));
    out.push(sum(categories.map((category) => spent[category][m]), `out${m}`));
    left.push(b.compute({ earned: earned[m], out: out[m] }, ({ earned, out }) => earned - out, b.internal(`left${m}`)));
    const before = m === 0 ? b.argument("saved") : saved[m - 1];
    saved.push(b.compute({ before, left: left[m] }, ({ before, left }) => before + left, b.internal(`saved${m}`)));
    share.push(b.compute({ earned: earned[m], out: out[m] },
      ({ earned, out }) => earned === 0 ? null : Math.round(100 * out / earned), b.internal(`share${m}`)));
    sign.push(b.compute({ left: left[m] }, ({ left }) => left < 0 ? "red" : "black", b.internal(`sign${m}`)));
  }

  // Each category over the year: 8. Each quarter: 12.
  const byCategory = {};
  for (const category of categories) byCategory[category] = sum(spent[category], category);
  const quarters = [0, 1, 2, 3].map((q) => {
    const of = (cells, name) => sum(cells.slice(3 * q, 3 * q + 3), `${name}Quarter${q}`);
    return { earned: of(earned, "earned"), out: of(out, "out"), left: of(left, "left") };
  });

  // The year: 12.
  const year = {};
  year.earned = sum(quarters.map((quarter) => quarter.earned), "yearEarned");
  year.out = sum(quarters.map((quarter) => quarter.out), "yearOut");
  year.left = b.compute({ earned: year.earned, out: year.out }, ({ earned, out }) => earned - out, b.internal("yearLeft"));
  year.mean = b.compute({ out: year.out }, ({ out }) => Math.round(out / 12), b.internal("yearMean"));
  year.best = b.compute({ left }, ({ left }) => left.indexOf(Math.max(...left)), b.internal("yearBest"));
  year.worst = b.compute({ left }, ({ left }) => left.indexOf(Math.min(...left)), b.internal("yearWorst"));
  year.red = b.compute({ sign }, ({ sign }) => sign.filter((one) => one === "red").length, b.internal("yearRed"));
  year.most = b.compute({ byCategory }, ({ byCategory }) =>
    Object.keys(byCategory).sort().reduce((most, one) => byCategory[one] > byCategory[most] ? one : most),
  b.internal("yearMost"));
  year.tax = b.compute({ earned: year.earned, rate: b.argument("tax") },
    ({ earned, rate }) => Math.round(earned * rate / 100), b.internal("yearTax"));
  year.net = b.compute({ left: year.left, tax: year.tax }, ({ left, tax }) => left - tax, b.internal("yearNet"));
  year.saved = b.compute({ saved: saved[11], tax: year.tax }, ({ saved, tax }) => saved - tax, b.internal("yearSaved"));
  year.reached = b.compute({ saved: year.saved, goal: b.argument("goal") },
    ({ saved, goal }) => saved >= goal, b.internal("yearReached"));

  return { months: { earned, out, left, saved, share, sign }, categories: byCategory, quarters, year };
}
