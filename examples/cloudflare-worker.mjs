// A Cloudflare Worker that summarizes the text of a POST:
// npx wrangler dev examples/cloudflare-worker.mjs --compatibility-flags enable_request_signal --var ROUTER_BASE_URL:http://127.0.0.1:4010
// With this flag the Worker learns that its visitor has left. Deploy it with the flag too; the proxy of `wrangler dev` does not say who has left.
import { ComputeRouter, ComputeRouterError } from "compute-router";

export default {
  async fetch(request, env, ctx) {
    if (request.method !== "POST") return new Response("POST a text\n", { status: 405 });
    // A client keeps nothing open, so each request may have its own. Give it a stored userId to keep your pairings.
    const router = new ComputeRouter({ baseUrl: env.ROUTER_BASE_URL, cancelOnAbort: false });
    try {
      const submitted = router.submit({ job_type: "TASK", task_type: "summarize", input: await request.text() });
      // The visitor may leave: then the job is cancelled. Without waitUntil the commit and the cancel would end with the request.
      ctx.waitUntil(submitted.catch(() => {}));
      const job = await submitted;
      const cancel = () => ctx.waitUntil(router.cancel(job).catch(() => {}));
      if (request.signal.aborted) cancel();
      request.signal.addEventListener("abort", cancel, { once: true });
      const { output, verified } = await router.waitFor(job.jobId, { signal: request.signal });
      return Response.json({ ...output, verified });
    } catch (error) {
      if (!request.signal.aborted && !(error instanceof ComputeRouterError)) throw error;
      return Response.json({ error: error.code }, { status: 502 });
    }
  },
};
