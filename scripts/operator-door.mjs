// A Worker beside the coordinator by which the process that runs both reaches the hub (workerd.ts), with questions and with the channel of the front: nothing
// on the coordinator's own port leads here. Miniflare's own way to call a Durable Object would stop that process, and the front in it, until the hub answers.
export default {
  /**
   * @param {Request} request
   * @param {{ HUB: { getByName(name: string): DoorHub }; DOOR_KEY: string }} env
   * @typedef {{ figures(): Promise<unknown>; leave(ms: number): Promise<boolean>; fetch(request: Request): Promise<Response> }} DoorHub
   */
  async fetch(request, { HUB, DOOR_KEY }) {
    // Every program of this machine can reach Miniflare's entry point.
    if (request.headers.get("x-door-key") !== DOOR_KEY) return new Response(null, { status: 403 });
    const { pathname, searchParams } = new URL(request.url);
    const hub = HUB.getByName("hub");
    if (request.headers.has("Upgrade")) return await hub.fetch(request);
    if (pathname === "/figures") return Response.json(await hub.figures());
    if (pathname === "/leave") return Response.json(await hub.leave(Number(searchParams.get("ms"))));
    return new Response(null, { status: 404 });
  },
};
