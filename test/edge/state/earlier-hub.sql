-- A hub's SQLite with the first two steps of the journal's schema, killed on 2026-11-21 (commit 9e3cf1a). Snapshots are of today's shape. One statement a line.
CREATE TABLE version (version INTEGER NOT NULL);
INSERT INTO "version" VALUES (2);
CREATE TABLE jobs ( id TEXT PRIMARY KEY, job_type TEXT NOT NULL, policy TEXT NOT NULL, privacy_class TEXT NOT NULL, user_id TEXT NOT NULL, payload TEXT NOT NULL, payload_bytes INTEGER NOT NULL, created_at INTEGER NOT NULL, rev INTEGER NOT NULL, status TEXT NOT NULL, attempt INTEGER NOT NULL, provider_pubkey TEXT, holders TEXT NOT NULL, snapshot TEXT, result TEXT, receipt TEXT, completed_at INTEGER, ended_at INTEGER, synced_rev INTEGER NOT NULL DEFAULT 0 ) WITHOUT ROWID;
INSERT INTO "jobs" VALUES ('3bfe6883-21ff-4cc7-a45f-7336a3ba829e','TASK','FAST','PUBLIC','old user','{"job_type":"TASK","task_type":"summarize","input":"a job that waits"}',70,1795247523565,1,'pending',0,NULL,'[]','{"attempts":0,"holders":[],"tried":[],"struck":[],"payment":null,"cause":null,"message":null,"outgrown":null,"trustedKeys":[],"totalDue":1795247703565,"phase":{"kind":"waiting","claimDue":1795247553565}}',NULL,NULL,NULL,NULL,1);
CREATE TABLE idempotency ( user_id TEXT NOT NULL, key TEXT NOT NULL, fingerprint TEXT NOT NULL, job_id TEXT NOT NULL, created_at INTEGER NOT NULL, PRIMARY KEY (user_id, key) ) WITHOUT ROWID;
INSERT INTO "idempotency" VALUES ('old user','old-key','3439fbc72bc1097d75f870adb72a7a55f4163da19722b83febe41d70192631bb','7ea581b3-2a52-4dd2-b098-d5344d2fded9',1795247520274);
CREATE TABLE keys ( key TEXT PRIMARY KEY, authenticated_at INTEGER, last_seen INTEGER NOT NULL, strikes INTEGER NOT NULL DEFAULT 0, parks INTEGER NOT NULL DEFAULT 0, parked_until INTEGER NOT NULL DEFAULT 0 , last_used INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
INSERT INTO "keys" VALUES ('547d597e2a95bb8877d761e51ff6b0dde42259a24a1ecb32fb09f81170c03943',NULL,1795247521964,0,0,0,1795247520275);
INSERT INTO "keys" VALUES ('ea4a6c63e29c520abef5507b132ec5f9954776aebebe7b92421eea691446d22c',1795247523058,1795247523058,0,0,0,0);
CREATE TABLE payments ( key TEXT PRIMARY KEY, digest TEXT NOT NULL, binding TEXT NOT NULL, payer TEXT, amount TEXT NOT NULL, expires_at INTEGER NOT NULL, job_id TEXT NOT NULL, own_job_id TEXT, doubts INTEGER NOT NULL, phase TEXT NOT NULL, kind TEXT NOT NULL, updated_at INTEGER NOT NULL, payload TEXT, requirements TEXT, response TEXT ) WITHOUT ROWID;
CREATE INDEX idempotency_created ON idempotency (created_at);
CREATE INDEX keys_last_seen ON keys (last_seen);
CREATE INDEX payments_job ON payments (job_id);
CREATE INDEX payments_done ON payments (updated_at) WHERE kind IN ('spent', 'void');
