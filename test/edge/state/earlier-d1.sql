-- A D1 with its first migration only, in use on 2026-11-21 (commit 9e3cf1a): the later migrations must keep its rows. One statement a line.
CREATE TABLE "d1_migrations"( id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP NOT NULL );
INSERT INTO "d1_migrations" VALUES (1,'0000_init.sql','2026-11-21 07:51:55');
CREATE TABLE `jobs` ( `id` text PRIMARY KEY NOT NULL, `job_type` text NOT NULL, `policy` text NOT NULL, `privacy_class` text NOT NULL, `user_id` text NOT NULL, `payload` text, `status` text NOT NULL, `rev` integer NOT NULL, `attempt` integer NOT NULL, `result` text, `provider_pubkey` text, `holders` text DEFAULT '[]' NOT NULL, `created_at` integer NOT NULL, `completed_at` integer, `ended_at` integer );
INSERT INTO "jobs" VALUES ('7ea581b3-2a52-4dd2-b098-d5344d2fded9','TASK','CHEAP','PRIVATE','old user','{"job_type":"TASK","task_type":"summarize","input":"a finished job"}','completed',3,1,'{"summary":"short","word_count":1}','547d597e2a95bb8877d761e51ff6b0dde42259a24a1ecb32fb09f81170c03943','["547d597e2a95bb8877d761e51ff6b0dde42259a24a1ecb32fb09f81170c03943"]',1795247520269,1795247520381,1795247520381);
INSERT INTO "jobs" VALUES ('3bf8d5c5-7026-4e90-8390-38b71b98d98d','TASK','CHEAP','PRIVATE','nobody','{}','failed',1,0,'{"error":"no_trusted_worker"}',NULL,'[]',1795247520405,NULL,1795247520405);
INSERT INTO "jobs" VALUES ('3bfe6883-21ff-4cc7-a45f-7336a3ba829e','TASK','FAST','PUBLIC','old user','{"job_type":"TASK","task_type":"summarize","input":"a job that waits"}','pending',1,0,NULL,NULL,'[]',1795247523565,NULL,NULL);
CREATE TABLE `pairings` ( `id` integer PRIMARY KEY AUTOINCREMENT NOT NULL, `pairing_code` text NOT NULL, `user_id` text NOT NULL, `provider_pubkey` text, `claimed` integer DEFAULT false NOT NULL, `created_at` integer NOT NULL, `expires_at` integer NOT NULL, `paired_at` integer );
INSERT INTO "pairings" VALUES (1,'A90D75','old user','547d597e2a95bb8877d761e51ff6b0dde42259a24a1ecb32fb09f81170c03943',1,1795247519994,1795251119994,1795247520062);
INSERT INTO "pairings" VALUES (2,'F1C696','old user',NULL,0,1795247520101,1795251120101,NULL);
INSERT INTO "pairings" VALUES (3,'D3DBA7','another old user',NULL,0,1795247520117,1795251120117,NULL);
CREATE TABLE `receipts` ( `job_id` text PRIMARY KEY NOT NULL, `signed_job_id` text NOT NULL, `provider_pubkey` text NOT NULL, `output_hash` text NOT NULL, `completed_at` text NOT NULL, `payment_ref` text, `signature` text NOT NULL, `verified` integer NOT NULL );
INSERT INTO "receipts" VALUES ('7ea581b3-2a52-4dd2-b098-d5344d2fded9','7ea581b3-2a52-4dd2-b098-d5344d2fded9','547d597e2a95bb8877d761e51ff6b0dde42259a24a1ecb32fb09f81170c03943','sha256:c4c8cf8da06ec12632240ad31848494db0b24449d1118a3c0cb5f748b963fd78','2026-11-21T07:52:00.373Z',NULL,'ti4Eu3mV64uYBgk/uuJTxIwo44wyUVjVNev//WwbI/2MwCOe2R0HEb5OsApuOTqF9MgGYYwmQgSeq3p8v5q+AA==',1);
CREATE TABLE `stakes` ( `provider_pubkey` text PRIMARY KEY NOT NULL, `amount` real NOT NULL, `updated_at` integer NOT NULL );
CREATE INDEX `jobs_ended_at` ON `jobs` (`ended_at`) WHERE ended_at IS NOT NULL;
CREATE INDEX `pairings_code` ON `pairings` (`pairing_code`,`id`);
CREATE INDEX `pairings_user` ON `pairings` (`user_id`,`claimed`);
