// The table of all routes: what a request meets first, and the file that answers it.
import { Hono } from "hono";
import { METHOD_NAME_ALL } from "hono/router";
import { TrieRouter } from "hono/router/trie-router";
import { OPENAI_ENDPOINTS } from "../protocol/pricing.ts";
import { allowOnly, answerError, type AppEnv } from "./http/context.ts";
import { rateLimit, wrapRequest } from "./http/middleware.ts";
import { commit } from "./routes/commit.ts";
import { cancel, events, job, userJobs } from "./routes/job.ts";
import { absent, complete, openAiErrors } from "./routes/openai.ts";
import { connect, docs, favicon, home, page, pageFile } from "./routes/pages.ts";
import { commitRate, paymentGate } from "./routes/paid-commit.ts";
import { health, llmsText, model, models, openApiDocument, quote, x402Resources } from "./routes/service.ts";
import { claimPairing, createPairing, listProviders } from "./routes/trust.ts";

/** All routes of an instance [SPEC "Endpoints"]. A paid commit passes three steps: rate limit, payment gate, commit. */
export const app = new Hono<AppEnv>();

app.use(wrapRequest);
app.onError(answerError);

app.get("/v1/health", health);
app.get("/v1/quote", quote);
app.get("/v1/models", models);
// Names of models may have slashes.
app.get("/v1/models/:id{.+}", openAiErrors, model);
app.post("/v1/jobs/commit/fast", commitRate, paymentGate("FAST"), commit("FAST"));
app.post("/v1/jobs/commit/cheap", commitRate, paymentGate("CHEAP"), commit("CHEAP"));
// For every method, because a wrong one is answered in OpenAI's form too.
for (const path of Object.values(OPENAI_ENDPOINTS)) app.use(path, openAiErrors);
app.post(OPENAI_ENDPOINTS.chat, commitRate, paymentGate("FAST"), complete("chat"));
app.post(OPENAI_ENDPOINTS.completions, commitRate, paymentGate("FAST"), complete("completions"));
app.get("/v1/jobs", rateLimit("polls"), userJobs);
app.get("/v1/jobs/:id", rateLimit("polls"), job);
app.delete("/v1/jobs/:id", rateLimit("commits"), cancel);
app.get("/v1/jobs/:id/events", rateLimit("polls"), events);
app.post("/v1/trust/create", rateLimit("trust"), createPairing);
app.post("/v1/trust/claim", rateLimit("trust"), claimPairing);
app.get("/v1/trust/list", rateLimit("trust"), listProviders);
app.get("/openapi.json", openApiDocument);
app.get("/llms.txt", llmsText);
app.get("/.well-known/x402", x402Resources);
app.get("/docs", docs);
app.get("/docs/:file", pageFile("docs"));
app.get("/", home);
app.get("/home/:file", pageFile("home"));
app.get("/favicon.ico", favicon);
app.get("/worker", page("worker"));
app.get("/worker/:file", pageFile("worker"));
app.get("/pair", page("pair"));
app.get("/pair/:file", pageFile("pair"));

/** The methods of every path. "/" is left out: only browsers get a page there, all other requests get 404 [API1]. */
const methodsOf = new TrieRouter<string>();
for (const { method, path } of app.routes) if (method !== METHOD_NAME_ALL && path !== "/") methodsOf.add(METHOD_NAME_ALL, path, method);

// A known path answers 405 to its other methods. This stands here, and not in one `app.all` per path, because Hono's fastest router cannot hold both
// `/v1/jobs/commit/…` and `/v1/jobs/:id` for the same method.
app.notFound((c) => {
  const [methods] = methodsOf.match(METHOD_NAME_ALL, c.req.path);
  return methods.length === 0 ? (absent(c) ?? connect(c)) : allowOnly(c, [...new Set(methods.map(([method]) => method))]);
});
