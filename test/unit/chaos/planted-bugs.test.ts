import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { PLANTED_BUGS } from "../../chaos/planted-bugs.ts";

test.each(Object.entries(PLANTED_BUGS))("[JB9] the source text of the planted bug %s still exists", (_, { file, from }) => {
  expect(readFileSync(file, "utf8").split(from)).toHaveLength(2);
});
