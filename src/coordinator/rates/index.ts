export { type Flow, freshFlow, type Passage, takeFrame } from "./flow.ts";
export { networkOf } from "./network.ts";
export { SlidingCount } from "./sliding-count.ts";
