import { describe, expect, test } from "vitest";
import { amountsOf, entitiesOf, isoDate } from "../../../src/tasks/extract/values.ts";

import { extractJsonTask } from "../../../src/tasks/extract-json.ts";

const extract = (input: string) => extractJsonTask(input).extracted;

describe("JSON", () => {
  test.each<[string, string, object[]]>([
    ["islands in prose, in order", 'a {"x":1} b {y: 2} c', [{ x: 1 }, { y: 2 }]],
    ["brackets in strings", '{"s":"}{]["}', [{ s: "}{][" }]],
    ["stray openers", 'see [note {"x":1} end', [{ x: 1 }]],
    ["mismatched closers", '{"a":[1,2}', [{ a: [1, 2] }]],
    ["a cut-off answer", 'Here: [{"a":1},{"a":', [{ a: 1 }, { a: null }]],
    ["a scalar", " 42 ", [{ value: 42 }]],
    ["a fenced list of scalars", "```json\n[1,2]\n```", [{ value: 1 }, { value: 2 }]],
    ["JSON within JSON", JSON.stringify('{"a":1}'), [{ a: 1 }]],
    ["numbers that JSON cannot write", '{"a":1e999,"b":-0}', [{ a: null, b: 0 }]],
    ["JSON escaped for a string, line breaks included", String.raw`{\n  \"a\": 1,\n  \"b\": \"x\"\n}`, [{ a: 1, b: "x" }]],
    ["a line of JSON Lines without its last brace", '{"id":1}\n{"id":2,"t":"x"\n{"id":3}', [{ id: 1 }, { id: 2, t: "x" }, { id: 3 }]],
    ["names that are numbers", "{1: 'x', 2: {3: 'y'}}", [{ 1: "x", 2: { 3: "y" } }]],
    ["a list of Python tuples", "[('a', 1), ('b', 2)]", [{ value: ["a", 1] }, { value: ["b", 2] }]],
    ["a price with a thousands separator", 'The lamp: {"price": 1,299.00}', [{ price: 1299 }]],
    ["a lone surrogate by escape", '{"a\\ud800":"\\udfff"}', [{ "a\ufffd": "\ufffd" }]],
  ])("%s", (_, input, expected) => {
    expect(extract(input)).toStrictEqual(expected);
  });

  test.each(["[1] and [2, 3]", "Hi {name}", "if (a) { return b; }", "- [ ] todo\n- [x] done", "[text](there)", "{}", "[]", "null"])(
    "%s is no data",
    (input) => {
      expect(extractJsonTask(input)).toEqual({ extracted: [], count: 0 });
    },
  );

  test("__proto__ is a member like any other", () => {
    const [record] = extract('{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}');
    expect(JSON.stringify(record)).toBe('{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}');
    expect(Object.getPrototypeOf(record)).toBe(Object.prototype);
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  });
});

describe("tables and labels", () => {
  test("equal and empty headers get different names", () => {
    expect(extract("|a|a||\n|-|-|-|\n|1|2|3|4|")).toEqual([{ a: 1, a_2: 2, column_3: 3, column_4: 4 }]);
    expect(extract("| __proto__ | b |\n|-|-|\n| 1 | 2 |").map((record) => JSON.stringify(record))).toEqual(['{"__proto__":1,"b":2}']);
  });

  test("a header with one row is not read as CSV, a header with two rows is", () => {
    expect(extract("p,q\n1,2")).toEqual([]);
    expect(extract("p,q\n1,2\n3,4")).toEqual([
      { p: 1, q: 2 },
      { p: 3, q: 4 },
    ]);
  });

  test("columns that are separated by spaces", () => {
    expect(extract("Name      Wins   Losses\n-----     ----   ------\nRed Fox   3      1\nOwl       2      2")).toEqual([
      { Name: "Red Fox", Wins: 3, Losses: 1 },
      { Name: "Owl", Wins: 2, Losses: 2 },
    ]);
  });

  test("labels before and after a table keep the order of the text", () => {
    expect(extract("Team: Owls\nYear: 2020\n\n|a|b|\n|-|-|\n|1|2|")).toEqual([
      { Team: "Owls", Year: 2020 },
      { a: 1, b: 2 },
    ]);
  });

  test("a repeated label starts a new record even without a blank line", () => {
    expect(extract("Id: 1\nOk: yes\nId: 2\nOk: no")).toEqual([
      { Id: 1, Ok: "yes" },
      { Id: 2, Ok: "no" },
    ]);
  });

  test.each(["Time 12:30 and 14:45", "std::move", "C:\\temp\nD:\\data", "Note: the river is high."])("%s holds no labels", (input) => {
    expect(extract(input)).toEqual([]);
  });
});

describe("entities", () => {
  test.each<[string, [string, string][]]>([
    ["Write to a.b+c@mail.example.org.", [["email", "a.b+c@mail.example.org"]]],
    ["(see https://x.example/a_(b)?c=1#d), ok", [["url", "https://x.example/a_(b)?c=1#d"]]],
    [
      "Call (020) 7946 0018 or 555-123-4567",
      [
        ["phone", "(020) 7946 0018"],
        ["phone", "555-123-4567"],
      ],
    ],
    [
      "2026-13-01 is none, 3rd of May 2026 and 2026-05-03T10:00Z are",
      [
        ["date", "3rd of May 2026"],
        ["date", "2026-05-03T10:00Z"],
      ],
    ],
    [
      "$1,200.50, US$5, 5 k€, CHF 3'000.00, 20 dollars",
      [
        ["money", "$1,200.50"],
        ["money", "US$5"],
        ["money", "5 k€"],
        ["money", "CHF 3'000.00"],
        ["money", "20 dollars"],
      ],
    ],
    [
      "up 3.5% and -2 percent",
      [
        ["percent", "3.5%"],
        ["percent", "-2 percent"],
      ],
    ],
    ["UTF-8, ISO-8601, COVID-19, v1.2.3, 10-20", []],
    [
      "INV-2024-001 and AB12345",
      [
        ["id", "INV-2024-001"],
        ["id", "AB12345"],
      ],
    ],
  ])("%s", (text, expected) => {
    expect(entitiesOf(text).map(({ type, value }) => [type, value])).toEqual(expected);
  });
});

describe("amounts of money next to each other", () => {
  test.each<[string, string[]]>([
    // The signs follow their numbers.
    ["Preise: 5 € 10 € 15 €", ["5 €", "10 €", "15 €"]],
    ["Costs: 120,00 € 240,00 € and $5 €6", ["120,00 €", "240,00 €", "$5", "€6"]],
    ["2 x Tisch à 120,00 € 240,00 €", ["120,00 €", "240,00 €"]],
    ["5 € 10 €", ["5 €", "10 €"]],
    ["10€ 20€", ["10€", "20€"]],
    ["5 EUR 6 EUR", ["5 EUR", "6 EUR"]],
    ["5 CHF 10 EUR 15 dollars", ["5 CHF", "10 EUR", "15 dollars"]],
    ["1 € 2 $ 3 £ 4 US$", ["1 €", "2 $", "3 £", "4 US$"]],
    ["100 ₩ 200 ₩ 0.5 ₿", ["100 ₩", "200 ₩", "0.5 ₿"]],
    ["1.234,50 € 2 345,60 € 1'000 €", ["1.234,50 €", "2 345,60 €", "1'000 €"]],
    ["5 million € 10 million €", ["5 million €", "10 million €"]],
    ["5\u00a0€ 10\u00a0€ 15\u202f€", ["5\u00a0€", "10\u00a0€", "15\u202f€"]],
    ["5 € 10%", ["5 €"]],
    // The signs come before their numbers.
    ["€ 5 € 10", ["€ 5", "€ 10"]],
    ["€5 €6 €7", ["€5", "€6", "€7"]],
    ["3 €10 each", ["€10"]],
    ["3 € 10 each", ["€ 10"]],
    ["3 €10 EUR", ["€10"]],
    ["3 $10 AUD", ["$10"]],
    ["Widget 3 $10.00 $30.00", ["$10.00", "$30.00"]],
    ["Widget 3 $ 10.00 $ 30.00", ["$ 10.00", "$ 30.00"]],
    ["EUR 5 EUR 6", ["EUR 5", "EUR 6"]],
    ["In 2024 USD 5 million, in 2025 USD 6 million", ["USD 5 million", "USD 6 million"]],
    ["2 €\u00a010 €\u00a020", ["€\u00a010", "€\u00a020"]],
    // Both, or one sign too many.
    ["USD 1,200.50 and 30 USD", ["USD 1,200.50", "30 USD"]],
    ["€ 5 10 €", ["€ 5", "10 €"]],
    ["10 € € 20", ["10 €", "€ 20"]],
    ["€5 € 6 deposit 7 €", ["€5", "€ 6", "7 €"]],
    ["USD 10 USD", ["USD 10"]],
    ["CHF 20.– CHF 30.–", ["CHF 20", "CHF 30"]],
    ["-€5 −$6 and -7 € 8 €", ["-€5", "−$6", "7 €", "8 €"]],
    ["sleep 5 $UNIT, 5 ${unit}, 5 $(unit)", []],
  ])("%s", (text, amounts) => {
    expect(entitiesOf(text).filter(({ type }) => type === "money")).toEqual(amounts.map((value) => ({ type: "money", value })));
  });

  test("a run of any length has its signs on one side", () => {
    const list = Array.from({ length: 5000 }, (_, i) => String(100_000 + i));
    expect(entitiesOf(list.map((n) => `${n} €`).join(" ")).map(({ value }) => value)).toEqual(list.map((n) => `${n} €`));
    expect(entitiesOf(list.map((n) => `€ ${n}`).join(" ")).map(({ value }) => value)).toEqual(list.map((n) => `€ ${n}`));
    expect(entitiesOf(`7 ${list.map((n) => `€ ${n}`).join(" ")}`).map(({ value }) => value)).toEqual(list.map((n) => `€ ${n}`));
  });
});

describe("invoices", () => {
  test("amounts of all countries", () => {
    expect(amountsOf("1.234,50 € $1,234.50 CHF 1'234.50 (12.00) 1,234 20%").map(({ value, currency }) => [value, currency])).toEqual([
      [1234.5, "EUR"],
      [1234.5, "USD"],
      [1234.5, "CHF"],
      [-12, undefined],
      [1234, undefined],
    ]);
  });

  test("a date is rewritten only if it can be read in one way only", () => {
    expect(["March 3, 2026", "3rd of Mar. 2026", "31/12/2026", "12/31/2026", "03/04/2026", "3.4.2026"].map(isoDate)).toEqual([
      "2026-03-03",
      "2026-03-03",
      "2026-12-31",
      "2026-12-31",
      "03/04/2026",
      "2026-04-03",
    ]);
  });

  test("a date that the calendar does not have stays as written", () => {
    for (const date of ["31.02.2026", "13/00/2026", "31/04/2026", "00.05.2026", "February 30, 2026", "2026-02-31", "29.02.2100"])
      expect(isoDate(date)).toBe(date);
    expect(["29.02.2028", "29.02.2000", "31/03/2026"].map(isoDate)).toEqual(["2028-02-29", "2000-02-29", "2026-03-31"]);
    expect(extract("Invoice INV-1\nDue date: 31.02.2026\nTotal: $5")[0]).toMatchObject({ due_date: "31.02.2026" });
    expect(extract("Invoice INV-1\nInvoice date: 13/00/2026\nTotal: $5")[0]).toMatchObject({ invoice_date: "13/00/2026" });
  });

  test("a bracket before an amount makes it negative only if one follows", () => {
    expect(amountsOf("(5.00) ($5.00) (5.00 USD) (5 items) (30 days").map(({ value }) => value)).toEqual([-5, -5, -5, 5, 30]);
  });

  test("a space separates thousands, except between a quantity and a price", () => {
    const values = (text: string) => amountsOf(text).map(({ value }) => value);
    for (const text of ["1 234,56", "1 234,56 €", "€ 1 234.56", "EUR 1 234.56", ": 1 234.56", "1 234.56 EUR"]) expect(values(text)).toEqual([1234.56]);
    expect(values("12 345 678 USD")).toEqual([12_345_678]);
    expect(values("3 150.00")).toEqual([3, 150]);
    expect(values("3 $150.00")).toEqual([3, 150]);
  });

  test.each<[string, Record<string, unknown>]>([
    ["Subtotal (2 items)  $5.75\nTotal (2 items)  $5.75", { subtotal: 5.75, total: 5.75 }],
    ["Total due (30 days): $5.75", { total: 5.75 }],
    ["Total due (30 days): 120", { total: 120 }],
    ["Balance due (net 30): $120.00", { total: 120, payment_terms: "net 30" }],
    ["Total due by 15 October: $120.00", { total: 120 }],
    ["Total due by 15 October: 120", { total: 120 }],
    ["Total due within 30 days 120.00 EUR", { total: 120 }],
    ["Total (USD 120.00)", { total: -120 }],
    ["Total 1500 incl. VAT 239.50", { total: 1500, tax: 239.5 }],
    ["Total : 1 234,56 €", { total: 1234.56, currency: "EUR" }],
    ["Total: 12 500.00 USD", { total: 12_500 }],
    ["Tax: $8.17\nTotal including tax: $49.00", { tax: 8.17, total: 49 }],
    ["Tax: $8.17\nTotal incl. VAT: $49.00", { tax: 8.17, total: 49 }],
    ["Total $49.00 including tax $8.17", { tax: 8.17, total: 49 }],
    ["Total (incl. tax $8.17): $49.00", { tax: 8.17, total: 49 }],
    ["Discount: $5.00\nTotal after discount: $40.00", { discount: 5, total: 40 }],
    ["Tax 1: $3.00\nTax 2: $4.10\nTotal: $49.00", { tax: 7.1, total: 49 }],
    ["Tax 1: 3\nTotal: $49.00", { tax: 3, total: 49 }],
    ["Total: $49.00\nTotal tax: $8.17", { tax: 8.17, total: 49 }],
    ["Total: $49.00\nTotal items: 3", { total: 49 }],
    ["Total discount: $4.00\nTotal: $49.00\nTotal shipping: $5.00", { discount: 4, shipping: 5, total: 49 }],
    ["Total (2): 5", { total: 5 }],
    ["Total: (5)", { total: -5 }],
  ])("the amounts of %j", (lines, amounts) => {
    expect(extract(`Invoice INV-1\n${lines}`)[0]).toMatchObject({ type: "invoice", invoice_number: "INV-1", ...amounts });
  });

  test("a total that includes the tax says nothing about the tax", () => {
    expect(extract("Invoice INV-1\nTotal including 20% VAT: $49.00")[0]).not.toHaveProperty("tax");
  });

  test("a text that only mentions an invoice is not read as one", () => {
    expect(extract("We sent the invoice and the total was $500.")).toEqual([{ type: "money", value: "$500" }]);
  });

  test("labels that it does not know are kept", () => {
    const [invoice] = extract("Invoice No: 77-A\nProject code: KX\nTotal: $5.00\nThermos bottle   $5.00");
    expect(invoice).toMatchObject({ type: "invoice", invoice_number: "77-A", project_code: "KX", total: 5, currency: "USD" });
  });
});
