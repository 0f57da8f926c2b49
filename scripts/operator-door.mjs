// A Worker beside the coordinator by which the process that runs both asks the hub (workerd.ts): nothing on the coordinator's own port leads here. Miniflare's
// own way to call a Durable Object would stop that process, and the front in it, until the hub has answered.
export default {
  /**
   * @param {Request} request
   * @param {{ HUB: { getByName(name: string): { figures(): Promise<unknown>; leave(ms: number): Promise<boolean> } }; DOOR_KEY: string }} env
   */
  async fetch(request, { HUB, DOOR_KEY }) {
    // Every program of this machine can reach Miniflare's entry point.
    if (request.headers.get("x-door-key") !== DOOR_KEY) return new Response(null, { status: 403 });
    const { pathname, searchParams } = new URL(request.url);
    const hub = HUB.getByName("hub");
    if (pathname === "/figures") return Response.json(await hub.figures());
    if (pathname === "/leave") return Response.json(await hub.leave(Number(searchParams.get("ms"))));
    return new Response(null, { status: 404 });
  },
};
