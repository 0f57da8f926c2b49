import { describe, expect, it } from "vitest";
import { randomSecret, readOpenCode, readUser, type Store, writeOpenCode, writeUser } from "../../../src/pages/pair/stored.ts";

const USER = { userId: "u-1", userToken: null };
const NOW = Date.UTC(2026, 10, 21);
const OPEN = {
  code: "A1B2C3",
  // The coordinator's clock is 5 min ahead of this one.
  expires_at: "2026-11-21T01:05:00.000Z",
  expiresAt: new Date(NOW + 3_600_000),
  workerUrl: "https://router.test/worker?code=A1B2C3",
};

/** A storage, and what is in it. */
function box(text: string | null = null): { store: NonNullable<Store>; text: () => string | null } {
  let kept = text;
  return {
    store: { getItem: () => kept, setItem: (_, value) => void (kept = value), removeItem: () => void (kept = null) },
    text: () => kept,
  };
}

const FORBIDDEN: NonNullable<Store> = {
  getItem: () => expect.fail("forbidden"),
  setItem: () => expect.fail("forbidden"),
  removeItem: () => {},
};

describe("the user of a page", () => {
  it("[TR1] is 128 random bits, another one each time", () => {
    const made = Array.from({ length: 50 }, randomSecret);
    for (const secret of made) expect(secret).toMatch(/^[0-9a-f]{32}$/);
    expect(new Set(made).size).toBe(50);
  });

  it.each([USER, { userId: "ü 😀", userToken: "secret" }])("is read as it was stored: %o", (user) => {
    const { store } = box();
    expect(writeUser(store, user)).toBe(true);
    expect(readUser(store)).toEqual(user);
  });

  it("is absent if nothing or something invalid is stored, or the browser forbids storage", () => {
    for (const text of [null, "", "{", "[]", "null", "7", '{"userId":7}', '{"userId":""}', '{"userToken":"t"}']) expect(readUser(box(text).store)).toBeNull();
    expect([readUser(null), readUser(FORBIDDEN)]).toEqual([null, null]);
    expect([writeUser(null, USER), writeUser(FORBIDDEN, USER)]).toEqual([false, false]);
  });
});

describe("the open code of a tab", () => {
  it("is read while it is valid, for its user only, and is deleted on request", () => {
    const { store, text } = box();
    writeOpenCode(store, USER, OPEN);
    expect(readOpenCode(store, USER, NOW + 3_599_999)).toEqual(OPEN);
    expect(readOpenCode(store, USER, NOW + 3_600_000)).toBeNull();
    expect(readOpenCode(store, { ...USER, userId: "u-2" }, NOW)).toBeNull();
    writeOpenCode(store, USER, null);
    expect(text()).toBeNull();
  });

  it.each([{ code: "A1B2" }, { code: 7 }, { until: "soon" }, { workerUrl: null }, { expires_at: undefined }])(
    "is absent if a part of it is invalid: %o",
    (wrong) => {
      const { store, text } = box();
      writeOpenCode(store, USER, OPEN);
      const { store: changed } = box(JSON.stringify({ ...JSON.parse(text() ?? ""), ...wrong }));
      expect(readOpenCode(changed, USER, NOW)).toBeNull();
      expect(readOpenCode(null, USER, NOW)).toBeNull();
    },
  );
});
