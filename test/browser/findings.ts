import axe, { type AxeResults, type RunOptions } from "axe-core";
import type { Page } from "playwright-core";
import { expect } from "vitest";

/** The rules of axe that look at colors. */
const OF_COLORS = ["color-contrast", "link-in-text-block"];

/** All that axe finds wrong with a page as it is, by rule and place. It looks at all of it or at the `part` that a selector names, with all `rules` or some. */
export async function findings(page: Page, { part = "html", rules = [] }: { part?: string; rules?: string[] } = {}): Promise<string[]> {
  // Once per page: it is half a megabyte.
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(axe.source);
  // Only what it finds wrong is described: to name each of thousands of right places takes axe most of its time.
  const options: RunOptions = { resultTypes: ["violations"], ...(rules.length > 0 && { runOnly: { type: "rule", values: rules } }) };
  const { violations, passed } = await page.evaluate(
    async (given) => {
      const { axe: here } = globalThis as unknown as { axe: { run: (selector: string, options: RunOptions) => Promise<AxeResults> } };
      const { violations, passes } = await here.run(given.part, given.options);
      return { violations, passed: passes.map(({ id }) => id) };
    },
    { part, options },
  );
  // Contrast was measured, not skipped.
  expect(passed).toContain("color-contrast");
  return violations.flatMap(({ id, impact, nodes }) => nodes.map(({ target }) => `${impact} ${id} ${target.join(" ")}`));
}

/** The color schemes of the pages. */
export const SCHEMES = ["light", "dark"] as const;

/**
 * All that axe finds wrong with a page in each color scheme. In dark only the colors differ, so only the rules that look at them run again, over the page or
 * the part of it that has every color.
 */
export async function findingsInBoth(page: Page, part = "html"): Promise<string[]> {
  const all: string[] = [];
  for (const colorScheme of SCHEMES) {
    await page.emulateMedia({ colorScheme });
    expect(await page.evaluate((scheme) => matchMedia(`(prefers-color-scheme: ${scheme})`).matches, colorScheme)).toBe(true);
    const found = await findings(page, colorScheme === "dark" ? { part, rules: OF_COLORS } : {});
    all.push(...found.map((finding) => `${colorScheme}: ${finding}`));
  }
  return all;
}

/** What Tab reaches, in order: names, each with a focus that can be seen. */
export async function tabOrder(page: Page): Promise<string[]> {
  const names: string[] = [];
  for (let presses = 0; presses < 30; presses++) {
    await page.keyboard.press("Tab");
    const focus = await page.evaluate(() => {
      const focused = document.activeElement;
      if (!(focused instanceof HTMLElement) || focused === document.body) return null;
      const { outlineStyle, outlineWidth } = getComputedStyle(focused);
      const label = focused instanceof HTMLInputElement ? focused.labels?.[0]?.textContent : focused.textContent;
      return { name: (label ?? "").trim().replaceAll(/\s+/g, " "), outlined: outlineStyle !== "none" && Number.parseFloat(outlineWidth) >= 2 };
    });
    if (focus === null) break;
    expect(focus).toMatchObject({ outlined: true });
    names.push(focus.name);
  }
  return names;
}
