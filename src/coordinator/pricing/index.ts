export * from "./policy.ts";
export * from "./prices.ts";
