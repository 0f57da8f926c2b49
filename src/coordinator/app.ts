import { Hono } from "hono";
import { gate } from "./payment/gate.ts";
import { allowOnly } from "./routes/allow.ts";
import { answerError } from "./routes/answer-error.ts";
import type { AppEnv } from "./routes/app-env.ts";
import { commit } from "./routes/commit.ts";
import { connect } from "./routes/connect.ts";
import { docsPage, openApiDocument } from "./routes/docs.ts";
import { everyAnswer } from "./routes/every-answer.ts";
import { events } from "./routes/events.ts";
import { health } from "./routes/health.ts";
import { job } from "./routes/job.ts";
import { models } from "./routes/models.ts";
import { favicon, home, page, pageFile } from "./routes/page.ts";
import { quote } from "./routes/quote.ts";
import { rated } from "./routes/rate.ts";
import { claimPairing, createPairing, listProviders } from "./routes/trust.ts";

/** The whole REST surface of an instance [SPEC "Endpoints"]. */
export const app = new Hono<AppEnv>();

app.use(everyAnswer);
app.onError(answerError);

app.get("/v1/health", health);
app.get("/v1/quote", quote);
app.get("/v1/models", models);
app.post("/v1/jobs/commit/fast", rated("commits"), gate("FAST"), commit("FAST"));
app.post("/v1/jobs/commit/cheap", rated("commits"), gate("CHEAP"), commit("CHEAP"));
app.get("/v1/jobs/:id", rated("polls"), job);
app.get("/v1/jobs/:id/events", rated("polls"), events);
app.post("/v1/trust/create", rated("trust"), createPairing);
app.post("/v1/trust/claim", rated("trust"), claimPairing);
app.get("/v1/trust/list", rated("trust"), listProviders);
app.get("/openapi.json", openApiDocument);
app.get("/docs", docsPage);
app.get("/", home);
app.get("/home/:file", pageFile("home"));
app.get("/favicon.ico", favicon);
app.get("/worker", page("worker"));
app.get("/worker/:file", pageFile("worker"));
app.get("/pair", page("pair"));
app.get("/pair/:file", pageFile("pair"));

// "/" is a page for browsers only: for everything else it stays unknown [API1].
const methods = Map.groupBy(
  app.routes.filter((route) => route.method !== "ALL" && route.path !== "/"),
  (route) => route.path,
);
for (const [path, routes] of methods) app.all(path, allowOnly([...new Set(routes.map((route) => route.method))]));

app.notFound(connect);
