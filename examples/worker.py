#!/usr/bin/env python3
"""A worker for TASK jobs: worker.py ws://127.0.0.1:4010/ [key file]. It needs Debian's python3-websockets and python3-nacl; see docs/protocol.md."""
import asyncio, base64, datetime, hashlib, json, nacl.signing, os, pathlib, random, re, sys, time, urllib.parse, websockets
def stringify(value):  # The bytes of ECMAScript's JSON.stringify, as long as no float is in it that Python writes in another way.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
def sign(key, text):
    return base64.b64encode(key.sign(text.encode()).signature).decode()
def work(task_type, text):
    if task_type == "summarize":
        return {"summary": re.split(r"(?<=[.!?])\s", text.strip())[0], "word_count": len(text.split())}
    if task_type == "classify":
        good, bad = (len(re.findall(words, text.lower())) for words in (r"\b(?:good|great|love|happy)", r"\b(?:bad|awful|hate|sad)"))
        share = round(abs(good - bad) / max(1, good + bad), 2)
        return {"sentiment": ["neutral", "positive", "negative"][(good > bad) - (good < bad)], "confidence": share if share % 1 else int(share)}  # 1, not 1.0
    found = [{"type": "email", "value": value} for value in re.findall(r"([\w.+-]+@[\w-]+(?:\.[\w-]+)+)|[\w.+-]+", text) if value]  # It takes other words whole: linear time.
    return {"extracted": found, "count": len(found)}
def complete(key, job):
    output = work(job["payload"]["task_type"], job["payload"]["input"])
    receipt = {"job_id": job["job_id"], "provider_pubkey": key.verify_key.encode().hex(),  # These five, in this order.
               "output_hash": "sha256:" + hashlib.sha256(stringify(output).encode()).hexdigest(),
               "completed_at": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")[:23] + "Z", "payment_ref": None}
    return {"type": "job_complete", "job_id": job["job_id"], "attempt": job["attempt"], "output": output, "receipt": receipt,
            "receipt_signature": sign(key, stringify(receipt))}
async def beat(ws):
    while not await asyncio.sleep(10):
        await ws.send('{"type":"heartbeat"}')
def read(text):  # A payload may have a whole number of any length: Python's int() raises above 4,300 digits, and JSON numbers are doubles anyway.
    return json.loads(text, parse_int=lambda digits: int(digits) if len(digits) < 20 else float(digits))
async def handle(ws, frame, key, kept):
    kind, ws.rest = frame["type"], frame.get("retry_after_s", 0)
    if kind == "job_assign":
        attempt = {"job_id": frame["job_id"], "attempt": frame["attempt"]}
        await ws.send(stringify({"type": "job_ack", **attempt}))
        try:
            kept[frame["job_id"]] = complete(key, frame)
        except Exception as error:  # Without this one job would end the worker.
            await ws.send(stringify({"type": "job_failed", **attempt, "error": "worker_error", "message": type(error).__name__, "retryable": True}))
    elif kind == "job_complete_ack" or (kind == "job_cancel" and frame["reason"] != "not_assigned"):  # A result counts without a lease too.
        kept.pop(frame["job_id"], None)
    if kind in ("register_ack", "job_assign", "job_complete_ack") and kept:  # Also what a connection before this one did not get through.
        await ws.send(stringify(next(iter(kept.values()))))
    off = datetime.datetime.fromisoformat(frame["time"][:23] + "+00:00").timestamp() - time.time() if "time" in frame else 0
    print(f"THIS CLOCK IS {off:+.0f} s OFF, RECEIPTS WILL BE REFUSED" if abs(off) > 60 else stringify(frame), flush=True)
async def serve(ws, url, key, kept):  # Until the connection ends. `kept` has the results that the coordinator has not acknowledged.
    hello, dialled, pubkey = json.loads(await ws.recv()), urllib.parse.urlsplit(url), key.verify_key.encode().hex()
    if hello["host"] != dialled.netloc.lower().removesuffix(":443" if dialled.scheme == "wss" else ":80"):
        sys.exit(f"the challenge is for {hello['host']}, which is not the host of the URL: it was not signed")
    signature = sign(key, "\n".join(["compute-router/register/v1", hello["network"], hello["host"], hello["nonce"], pubkey]))
    await ws.send(stringify({"type": "register", "provider_pubkey": pubkey, "provider_type": "DESKTOP", "capabilities": ["TASK"], "features": ["ack"],
                             "resume": [{"job_id": job["job_id"], "attempt": job["attempt"]} for job in kept.values()], "signature": signature}))
    while text := await asyncio.wait_for(ws.recv(), 30):  # 30 s without any answer: the connection is dead.
        try:
            await handle(ws, read(text), key, kept)
        except (OSError, websockets.WebSocketException):
            raise
        except Exception as error:  # It is about this frame only.
            print(repr(error), flush=True)
async def main(url, path="worker.key"):
    os.path.exists(path) or os.write(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), os.urandom(32))
    key, kept, pause = nacl.signing.SigningKey(pathlib.Path(path).read_bytes()), {}, 2.5
    while True:
        began, ws = time.monotonic(), None
        try:
            async with websockets.connect(url, max_size=2**21, ping_interval=None) as ws:
                await asyncio.gather(serve(ws, url, key, kept), beat(ws))
        except (OSError, asyncio.TimeoutError, websockets.WebSocketException) as error:
            print(repr(error), flush=True)
        code, pause = getattr(ws, "close_code", None), 5 if time.monotonic() - began > 60 else min(30, 2 * pause)
        if code in (4001, 4400, 4401):  # Another process uses this key; the message or the signature is wrong: coming back would not help.
            sys.exit(f"closed with {code}: {ws.close_reason}")
        await asyncio.sleep(getattr(ws, "rest", 0) or (15 if code == 4409 else random.uniform(0, pause)))
asyncio.run(main(*sys.argv[1:]))
