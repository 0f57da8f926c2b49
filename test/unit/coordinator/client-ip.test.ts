import { expect, test } from "vitest";
import { clientOf } from "../../../src/coordinator/http/request.ts";

function request(headers: Record<string, string>, edge: boolean): Request {
  return Object.assign(new Request("http://router.test", { headers }), edge ? { cf: {} } : {});
}
const direct = { trustedIpHeader: null };
const proxied = { trustedIpHeader: "X-Forwarded-For" };

test("[LM2] at Cloudflare it is CF-Connecting-IP", () => {
  expect(clientOf(request({ "cf-connecting-ip": "192.0.2.1" }, true), direct, true)).toBe("192.0.2.1");
});

test("[LM2] that header is ignored where a client can set it itself", () => {
  const forged = { "cf-connecting-ip": "192.0.2.1", "cf-ray": "x", "x-forwarded-for": "192.0.2.2", "x-real-ip": "192.0.2.3" };
  expect(clientOf(request(forged, true), direct, false)).toBe("local");
  expect(clientOf(request(forged, false), direct, true)).toBe("local");
  expect(clientOf(request(forged, true), direct)).toBe("local");
});

test("[LM2] behind a proxy it is the last entry of the proxy's header", () => {
  expect(clientOf(request({ "x-forwarded-for": "forged, 192.0.2.7" }, false), proxied, false)).toBe("192.0.2.7");
  expect(clientOf(request({ "cf-connecting-ip": "192.0.2.1", "x-forwarded-for": "192.0.2.7" }, true), proxied, true)).toBe("192.0.2.7");
  expect(clientOf(request({}, false), proxied, false)).toBe("local");
  expect(clientOf(request({ "x-forwarded-for": "192.0.2.7, " }, false), proxied, false)).toBe("local");
});
