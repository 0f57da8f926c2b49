import { configureGlobal } from "fast-check";

/**
 * For `setupFiles`: the same cases in every run, so that a red run says something about the change that it tests. `PROPERTY_SEED=any` tries new ones; what they
 * find becomes an example of its test.
 */
const { PROPERTY_SEED = "4711" } = process.env;
if (PROPERTY_SEED !== "any") configureGlobal({ seed: Number(PROPERTY_SEED) });
