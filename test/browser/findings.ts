import axe, { type AxeResults, type RunOptions } from "axe-core";
import type { Page } from "playwright-core";
import { expect } from "vitest";

/** All that axe finds wrong with a page as it is, or with the part of it that a selector names, by rule and place. */
export async function findings(page: Page, part = "html"): Promise<string[]> {
  // Once per page: it is half a megabyte.
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(axe.source);
  const { violations, passed } = await page.evaluate(async (selector) => {
    const { axe: here } = globalThis as unknown as { axe: { run: (selector: string, options: RunOptions) => Promise<AxeResults> } };
    // Every rule runs. Only what it finds wrong is described: to name each of thousands of right places takes axe most of its time.
    const { violations, passes } = await here.run(selector, { resultTypes: ["violations"] });
    return { violations, passed: passes.map(({ id }) => id) };
  }, part);
  // Contrast was measured, not skipped.
  expect(passed).toContain("color-contrast");
  return violations.flatMap(({ id, impact, nodes }) => nodes.map(({ target }) => `${impact} ${id} ${target.join(" ")}`));
}

/** The color schemes of the pages. */
export const SCHEMES = ["light", "dark"] as const;

/** All that axe finds wrong with a page in each color scheme. Every rule runs in both; what leads to the page runs once. */
export async function findingsInBoth(page: Page): Promise<string[]> {
  const all: string[] = [];
  for (const colorScheme of SCHEMES) {
    await page.emulateMedia({ colorScheme });
    expect(await page.evaluate((scheme) => matchMedia(`(prefers-color-scheme: ${scheme})`).matches, colorScheme)).toBe(true);
    all.push(...(await findings(page)).map((finding) => `${colorScheme}: ${finding}`));
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
