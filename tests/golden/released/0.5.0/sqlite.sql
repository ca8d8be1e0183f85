BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0017');
CREATE TABLE api_reply (
    request_key TEXT NOT NULL PRIMARY KEY,
    digest TEXT DEFAULT '' NOT NULL,
    reply TEXT DEFAULT '' NOT NULL,
    expire_time REAL DEFAULT 0 NOT NULL
) STRICT;
INSERT INTO "api_reply" VALUES('key','digest','{}',1802518200.0);
CREATE TABLE api_token (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    name TEXT DEFAULT '' NOT NULL,
    token_hash TEXT DEFAULT '' NOT NULL UNIQUE,
    user_id INTEGER,
    scopes TEXT DEFAULT '' NOT NULL,
    share REAL DEFAULT 1 NOT NULL,
    create_time REAL DEFAULT 0 NOT NULL,
    expire_time REAL,
    revoke_time REAL,
    host_id INTEGER
, apps TEXT, max_jobs INTEGER) STRICT;
INSERT INTO "api_token" VALUES(1,'manager','e21ef74355469b40c10cccc79861a8c966c833e2fb1eedb35f02704d20284168',NULL,'accounting',1.0,1801913400.0,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "api_token" VALUES(2,'user 1','user 1',1,'read submit',2.0,1801913400.0,NULL,NULL,NULL,'["search"]',10);
CREATE TABLE app (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    name TEXT DEFAULT '' NOT NULL UNIQUE,
    user_friendly_name TEXT DEFAULT '' NOT NULL,
    deprecated INTEGER DEFAULT 0 NOT NULL,
    beta INTEGER DEFAULT 0 NOT NULL,
    comparison TEXT DEFAULT '{}' NOT NULL,
    assimilator TEXT DEFAULT '' NOT NULL,
    credit_system TEXT DEFAULT '' NOT NULL,
    fixed_credit REAL DEFAULT 0 NOT NULL,
    host_scale_check INTEGER DEFAULT 0 NOT NULL,
    partial_credit INTEGER DEFAULT 0 NOT NULL,
    credit_per_cpu_second REAL DEFAULT 0 NOT NULL,
    credit_function TEXT DEFAULT '' NOT NULL,
    min_avg_pfc REAL DEFAULT 1 NOT NULL,
    flops_scale REAL DEFAULT 1 NOT NULL,
    counted_benchmark_credit REAL DEFAULT 0 NOT NULL,
    counted_credit REAL DEFAULT 0 NOT NULL,
    counted_cpu_seconds REAL DEFAULT 0 NOT NULL,
    counted_jobs INTEGER DEFAULT 0 NOT NULL,
    limits TEXT DEFAULT '{}' NOT NULL,
    rules TEXT DEFAULT '{}' NOT NULL,
    output_specs TEXT DEFAULT '[]' NOT NULL,
    dispatch TEXT DEFAULT '{}' NOT NULL,
    command TEXT DEFAULT '[]' NOT NULL,
    create_time REAL DEFAULT 0 NOT NULL,
    show_outputs INTEGER DEFAULT 0 NOT NULL
) STRICT;
INSERT INTO "app" VALUES(1,'search','',0,0,'{"kind":"bitwise","options":{}}','','creditnew-deployed',0.0,0,1,0.0,'',1.0,1.0,0.0,0.0,0.0,0,'{"rsc_fpops_est":1000000000000.0,"rsc_fpops_bound":100000000000000.0,"rsc_memory_bound":500000000.0,"rsc_disk_bound":1000000000.0,"rsc_bandwidth_bound":0.0,"delay_bound":432000.0}','{"min_quorum":2,"target_nresults":2,"max_error_results":2,"max_total_results":10,"max_success_results":6}','[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]','{"min_version":0,"non_cpu_intensive":false,"homogeneous_redundancy":0,"homogeneous_app_version":false,"adaptive":false,"max_jobs_on_host":0,"max_jobs_in_progress":0,"max_gpu_jobs_in_progress":0,"max_jobs_per_rpc":0,"max_jobs_per_day_init":0,"locality":false,"size_classes":[],"keywords":[]}','{"command":[],"stdout":"","command_line":"","inputs":[]}',1800000000.0,0);
INSERT INTO "app" VALUES(2,'fragile','',0,0,'{"kind":"numeric","options":{}}','','benchmark',0.0,0,0,0.0,'',1.0,1.0,0.0,0.0,0.0,0,'{"rsc_fpops_est":1000000000000.0,"rsc_fpops_bound":100000000000000.0,"rsc_memory_bound":500000000.0,"rsc_disk_bound":1000000000.0,"rsc_bandwidth_bound":0.0,"delay_bound":432000.0}','{"min_quorum":2,"target_nresults":2,"max_error_results":2,"max_total_results":10,"max_success_results":6}','[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]','{"min_version":0,"non_cpu_intensive":false,"homogeneous_redundancy":0,"homogeneous_app_version":false,"adaptive":false,"max_jobs_on_host":0,"max_jobs_in_progress":0,"max_gpu_jobs_in_progress":0,"max_jobs_per_rpc":0,"max_jobs_per_day_init":0,"locality":false,"size_classes":[],"keywords":[]}','{"command":[],"stdout":"","command_line":"","inputs":[]}',1800010800.0,0);
INSERT INTO "app" VALUES(3,'survey','',0,0,'{"kind":"bitwise","options":{}}','','ledger',0.0,0,0,0.0,'',1.0,1.0,0.0,0.0,0.0,0,'{"rsc_fpops_est":1000000000000.0,"rsc_fpops_bound":100000000000000.0,"rsc_memory_bound":500000000.0,"rsc_disk_bound":1000000000.0,"rsc_bandwidth_bound":0.0,"delay_bound":432000.0}','{"min_quorum":2,"target_nresults":2,"max_error_results":2,"max_total_results":10,"max_success_results":6}','[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]','{"min_version":0,"non_cpu_intensive":false,"homogeneous_redundancy":0,"homogeneous_app_version":false,"adaptive":false,"max_jobs_on_host":0,"max_jobs_in_progress":0,"max_gpu_jobs_in_progress":0,"max_jobs_per_rpc":0,"max_jobs_per_day_init":0,"locality":false,"size_classes":[],"keywords":[]}','{"command":[],"stdout":"","command_line":"","inputs":[]}',1801047600.0,0);
INSERT INTO "app" VALUES(4,'keeper','',0,0,'{"kind":"bitwise","options":{}}','','benchmark',0.0,0,0,0.0,'',1.0,1.0,0.0,0.0,0.0,0,'{"rsc_fpops_est":1000000000000.0,"rsc_fpops_bound":864000000000000.0,"rsc_memory_bound":500000000.0,"rsc_disk_bound":1000000000.0,"rsc_bandwidth_bound":0.0,"delay_bound":604800.0}','{"min_quorum":1,"target_nresults":1,"max_error_results":3,"max_total_results":10,"max_success_results":6}','[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]','{"min_version":0,"non_cpu_intensive":false,"homogeneous_redundancy":0,"homogeneous_app_version":false,"adaptive":false,"max_jobs_on_host":0,"max_jobs_in_progress":0,"max_gpu_jobs_in_progress":0,"max_jobs_per_rpc":0,"max_jobs_per_day_init":0,"locality":false,"size_classes":[],"keywords":[]}','{"command":[],"stdout":"","command_line":"","inputs":[]}',1801049400.0,0);
INSERT INTO "app" VALUES(5,'open','',0,0,'{"kind":"bitwise","options":{}}','','benchmark',0.0,0,0,0.0,'',1.0,1.0,0.0,0.0,0.0,0,'{"rsc_fpops_est":1000000000000.0,"rsc_fpops_bound":100000000000000.0,"rsc_memory_bound":500000000.0,"rsc_disk_bound":1000000000.0,"rsc_bandwidth_bound":0.0,"delay_bound":432000.0}','{"min_quorum":2,"target_nresults":2,"max_error_results":2,"max_total_results":10,"max_success_results":6}','[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]','{"min_version":0,"non_cpu_intensive":false,"homogeneous_redundancy":0,"homogeneous_app_version":false,"adaptive":false,"max_jobs_on_host":0,"max_jobs_in_progress":0,"max_gpu_jobs_in_progress":0,"max_jobs_per_rpc":0,"max_jobs_per_day_init":0,"locality":false,"size_classes":[],"keywords":[]}','{"command":[],"stdout":"","command_line":"","inputs":[]}',1801999800.0,0);
CREATE TABLE app_credit (
    owner TEXT NOT NULL,
    app_id INTEGER NOT NULL,
    owner_id INTEGER NOT NULL,
    n_results INTEGER DEFAULT 0 NOT NULL,
    total_credit REAL DEFAULT 0 NOT NULL,
    expavg_credit REAL DEFAULT 0 NOT NULL,
    expavg_time REAL DEFAULT 0 NOT NULL,
    PRIMARY KEY (owner, app_id, owner_id)
) STRICT;
INSERT INTO "app_credit" VALUES('user',1,1,4,4.72726733143399879821e+00,2.05893898621769627643e-01,1801047600.0);
INSERT INTO "app_credit" VALUES('host',1,1,4,4.72726733143399879821e+00,2.05893898621769627643e-01,1801047600.0);
INSERT INTO "app_credit" VALUES('user',1,2,2,1.80199430199430232768e+00,1.78068233648813301073e-01,1800007200.0);
INSERT INTO "app_credit" VALUES('host',1,2,2,1.80199430199430232768e+00,1.78068233648813301073e-01,1800007200.0);
INSERT INTO "app_credit" VALUES('user',1,3,2,3.37577160493827221898e+00,1.66064455978009617442e-01,1801047600.0);
INSERT INTO "app_credit" VALUES('host',1,3,2,3.37577160493827221898e+00,1.66064455978009617442e-01,1801047600.0);
INSERT INTO "app_credit" VALUES('user',3,1,3,4.6298652705537524099e+00,4.58217987602514531531e-01,1801049400.0);
INSERT INTO "app_credit" VALUES('host',3,1,3,4.6298652705537524099e+00,4.58217987602514531531e-01,1801049400.0);
INSERT INTO "app_credit" VALUES('user',3,2,3,4.61589464231161272778e+00,4.56952571663918949429e-01,1801049400.0);
INSERT INTO "app_credit" VALUES('host',3,2,3,4.61589464231161272778e+00,4.56952571663918949429e-01,1801049400.0);
INSERT INTO "app_credit" VALUES('user',4,1,1,2.3148148148148148806e+00,2.29215337486754378026e-01,1801049400.0);
INSERT INTO "app_credit" VALUES('host',4,1,1,2.3148148148148148806e+00,2.29215337486754378026e-01,1801049400.0);
CREATE TABLE app_day (
    app_id INTEGER NOT NULL,
    day INTEGER NOT NULL,
    n_success INTEGER DEFAULT 0 NOT NULL,
    n_error INTEGER DEFAULT 0 NOT NULL,
    n_unsent INTEGER DEFAULT 0 NOT NULL,
    n_in_progress INTEGER DEFAULT 0 NOT NULL,
    n_results INTEGER DEFAULT 0 NOT NULL,
    granted REAL DEFAULT 0 NOT NULL,
    n_hosts INTEGER DEFAULT 0 NOT NULL,
    PRIMARY KEY (app_id, day)
) STRICT;
INSERT INTO "app_day" VALUES(1,20833,3,0,0,0,6,5.27540360873694336163e+00,3);
INSERT INTO "app_day" VALUES(2,20833,0,1,0,0,0,0.0,0);
INSERT INTO "app_day" VALUES(2,20839,0,2,0,0,0,0.0,0);
INSERT INTO "app_day" VALUES(1,20845,1,0,0,0,2,4.62962962962963,2);
INSERT INTO "app_day" VALUES(3,20845,3,0,0,0,6,9.24575991286537,2);
INSERT INTO "app_day" VALUES(4,20845,1,0,0,0,1,2.3148148148148148806e+00,1);
INSERT INTO "app_day" VALUES(1,20856,0,0,0,0,0,0.0,0);
INSERT INTO "app_day" VALUES(2,20856,0,0,1,0,0,0.0,0);
INSERT INTO "app_day" VALUES(3,20856,0,0,0,0,0,0.0,0);
INSERT INTO "app_day" VALUES(4,20856,1,0,1,0,0,0.0,0);
CREATE TABLE app_host_day (
    app_id INTEGER NOT NULL,
    host_id INTEGER NOT NULL,
    last_day INTEGER DEFAULT 0 NOT NULL,
    PRIMARY KEY (app_id, host_id)
) STRICT;
INSERT INTO "app_host_day" VALUES(1,1,20845);
INSERT INTO "app_host_day" VALUES(1,2,20833);
INSERT INTO "app_host_day" VALUES(1,3,20845);
INSERT INTO "app_host_day" VALUES(3,1,20845);
INSERT INTO "app_host_day" VALUES(3,2,20845);
INSERT INTO "app_host_day" VALUES(4,1,20845);
CREATE TABLE app_version (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    app_id INTEGER DEFAULT 0 NOT NULL,
    platform TEXT DEFAULT '' NOT NULL,
    version_num INTEGER DEFAULT 0 NOT NULL,
    plan_class TEXT DEFAULT '' NOT NULL,
    deprecated INTEGER DEFAULT 0 NOT NULL,
    beta INTEGER DEFAULT 0 NOT NULL,
    api_version TEXT DEFAULT '' NOT NULL,
    command_line TEXT DEFAULT '' NOT NULL,
    files TEXT DEFAULT '[]' NOT NULL,
    min_client_version INTEGER DEFAULT 0 NOT NULL,
    max_client_version INTEGER DEFAULT 0 NOT NULL,
    create_time REAL DEFAULT 0 NOT NULL,
    rollout_fraction REAL DEFAULT 1 NOT NULL,
    rollout_plan TEXT DEFAULT '{}' NOT NULL,
    pfc_n INTEGER DEFAULT 0 NOT NULL,
    pfc_avg REAL DEFAULT 0 NOT NULL,
    pfc_var REAL DEFAULT 0 NOT NULL,
    pfc_q REAL DEFAULT 0 NOT NULL,
    pfc_scale REAL DEFAULT 0 NOT NULL,
    total_credit REAL DEFAULT 0 NOT NULL,
    expavg_credit REAL DEFAULT 0 NOT NULL,
    expavg_time REAL DEFAULT 0 NOT NULL,
    UNIQUE (app_id, platform, version_num, plan_class)
) STRICT;
INSERT INTO "app_version" VALUES(1,1,'any',100,'',0,0,'7.20.5','','[{"name":"search_eb2955b56cc4994434238ad0c04632b4.sh","open_name":"search.sh","nbytes":19,"md5":"15c2796b88a7fe61e29bd231598ac359","executable":false,"main_program":true,"copy_file":false,"signature":"197f729c38d92b78067215b842a67e65201c15d50c2486fec281bd8760da98fb\nd86da9c9327bcb9d9320431c5d62b7bc31326b3d54ef709f0c590ccbdb5425dc\nded53c81e8bc6df7fa6b27a472d30183aed0cd410dc61126c5aa542b3ec54f6a\ne8b81eb9d36407ad70f194ce05da46e2ae8018dd48f932aaef0669c2e3d43ebb\n.\n","gzipped_nbytes":null}]',0,0,1800000000.0,1.0,'{}',6,4.03333333333333432513e-01,6.72222222222222578341e-03,4.03333333333333529657e-02,0.0,5.27540360873694336163e+00,5.3247968183532827513e-02,1801999800.0);
INSERT INTO "app_version" VALUES(2,2,'any',100,'',0,0,'7.20.5','','[{"name":"fragile_21f2c793b2dd479f6021e21d2bb202be.sh","open_name":"fragile.sh","nbytes":20,"md5":"d94ddbbb297e9aad4eb3f74d0368bae9","executable":false,"main_program":true,"copy_file":false,"signature":"72ad806067c4621caba3d4f773c5370e0535e0ee8390b28afefe08f676b22fdb\n7b4fccadb10f5e2b879dc29ae9cea5b04905b452590c23e35dcfe0fea618f34d\n2323dd3ff5123204a306ea3cbda929f0d98b06ca462c7212dd6fa1bdfb476c7d\n83602497ebf30ebb00f84fdae8989b21da7af02f8e908fa5c821362639b9af87\n.\n","gzipped_nbytes":null}]',0,0,1800010800.0,1.0,'{}',0,0.0,0.0,0.0,0.0,0.0,0.0,1800010800.0);
INSERT INTO "app_version" VALUES(3,1,'any',101,'',0,0,'7.20.5','','[{"name":"search_eb2955b56cc4994434238ad0c04632b4.sh","open_name":"search.sh","nbytes":19,"md5":"15c2796b88a7fe61e29bd231598ac359","executable":false,"main_program":true,"copy_file":false,"signature":"197f729c38d92b78067215b842a67e65201c15d50c2486fec281bd8760da98fb\nd86da9c9327bcb9d9320431c5d62b7bc31326b3d54ef709f0c590ccbdb5425dc\nded53c81e8bc6df7fa6b27a472d30183aed0cd410dc61126c5aa542b3ec54f6a\ne8b81eb9d36407ad70f194ce05da46e2ae8018dd48f932aaef0669c2e3d43ebb\n.\n","gzipped_nbytes":null}]',0,0,1800529200.0,1.0,'{}',0,0.0,0.0,0.0,0.0,4.62962962962963,1.3499683530953124344e-01,1801999800.0);
INSERT INTO "app_version" VALUES(4,3,'any',100,'',0,0,'7.20.5','','[{"name":"survey_d23bddda43e2ad10a8081b30db701dac.sh","open_name":"survey.sh","nbytes":19,"md5":"fb061c4309eaa50c99a55f65f6659d26","executable":false,"main_program":true,"copy_file":false,"signature":"93025a2722fd9dce7756cd3b4fec617136351f23449c81e2c51531d14ca2d15a\n73287ac0e0574d5e075bdf547d7a6b8aa4fd523fb05d64ea86c14c751626a0c8\n15f1a52911619ab14bb603508c875c4a5d652280433985600dead6374c712f3e\n519e283f1823fb92f72ccb69b81b41307dd48155f087cb70bbc45177be826039\n.\n","gzipped_nbytes":null}]',0,0,1801047600.0,1.0,'{}',6,3.85000000000000064392e-01,3.0249999999999994775e-03,1.81499999999999959976e-02,0.0,9.24575991286537,3.0797177914260809306e-01,1801999800.0);
INSERT INTO "app_version" VALUES(5,4,'any',100,'',0,0,'7.20.5','','[{"name":"keeper_cbb10af7f398a86e3751da7b7ff9df34.sh","open_name":"keeper.sh","nbytes":19,"md5":"509930986cefdfa6af9c974479f067e3","executable":false,"main_program":true,"copy_file":false,"signature":"c6ad1ab82c78a261fdd18ed1c4a02c533d37bc270e58d116060b464ae8525208\n8f8682609f93a6aa2515bb886573175c516704604013825010b347805119f15f\na69c580ffb5b4c7575fd83b76a1d79f392816b978f4ebd6c68a68f84610e4c7d\n5668385e0617880b7ac4592324a88fd83bbad788576b348d775107ac3b698c64\n.\n","gzipped_nbytes":null}]',0,0,1801049400.0,1.0,'{}',0,0.0,0.0,0.0,0.0,4.62962962962963,3.0634057920618268378e-01,1801999800.0);
INSERT INTO "app_version" VALUES(6,5,'any',100,'',0,0,'7.20.5','','[{"name":"open_63b23a5920ed4fb2485119e1484c6213.sh","open_name":"open.sh","nbytes":17,"md5":"3c36cfadc83976efdc7469530e4a6937","executable":false,"main_program":true,"copy_file":false,"signature":"3b61d6997c2a958dc20392162a8b3d7ec65d8dc6c5e9b364071f5e69ed2f1744\n44ce238b62f5d1d9e1f4de842653a267d15719476f12e40a28abcd5059c362b9\n41cd0135e608073d79da64538b89d5fdb05d915c397819e071a62a7a21bb9713\n109c89083aebe4a4bcef8475245808544cf0d400079e70ac9443284c05601e43\n.\n","gzipped_nbytes":null}]',0,0,1801999800.0,1.0,'{}',0,0.0,0.0,0.0,0.0,0.0,0.0,1801999800.0);
CREATE TABLE audit_entry (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    time REAL DEFAULT 0 NOT NULL,
    actor TEXT DEFAULT '' NOT NULL,
    origin TEXT DEFAULT '' NOT NULL,
    action TEXT DEFAULT '' NOT NULL,
    target TEXT DEFAULT '' NOT NULL,
    before TEXT DEFAULT 'null' NOT NULL,
    after TEXT DEFAULT 'null' NOT NULL
) STRICT;
INSERT INTO "audit_entry" VALUES(1,1800529200.0,'operator','test','cancel batch','batch 4','{"state":"IN_PROGRESS"}','{"state":"ABORTED"}');
INSERT INTO "audit_entry" VALUES(2,1801913400.0,'operator','test','changed','app search','null','null');
CREATE TABLE badge (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    kind TEXT DEFAULT '' NOT NULL,
    level REAL DEFAULT 0 NOT NULL,
    UNIQUE (kind, level)
) STRICT;
INSERT INTO "badge" VALUES(1,'total',0.01);
INSERT INTO "badge" VALUES(2,'total',1000000.0);
INSERT INTO "badge" VALUES(3,'recent',100.0);
INSERT INTO "badge" VALUES(4,'recent',1000.0);
INSERT INTO "badge" VALUES(5,'recent',10000.0);
INSERT INTO "badge" VALUES(6,'recent',100000.0);
INSERT INTO "badge" VALUES(7,'rank',25.0);
INSERT INTO "badge" VALUES(8,'rank',5.0);
INSERT INTO "badge" VALUES(9,'rank',1.0);
CREATE TABLE badge_owner (
    owner TEXT NOT NULL,
    owner_id INTEGER NOT NULL,
    badge_id INTEGER NOT NULL,
    create_time REAL DEFAULT 0 NOT NULL,
    PRIMARY KEY (owner, owner_id, badge_id)
) STRICT;
INSERT INTO "badge_owner" VALUES('user',1,1,1801999800.0);
INSERT INTO "badge_owner" VALUES('user',2,1,1801999800.0);
INSERT INTO "badge_owner" VALUES('user',3,1,1801999800.0);
INSERT INTO "badge_owner" VALUES('host',1,1,1801999800.0);
INSERT INTO "badge_owner" VALUES('host',2,1,1801999800.0);
INSERT INTO "badge_owner" VALUES('host',3,1,1801999800.0);
CREATE TABLE batch (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    name TEXT DEFAULT '' NOT NULL,
    app_id INTEGER DEFAULT 0 NOT NULL,
    token_id INTEGER,
    request_key TEXT UNIQUE,
    state INTEGER DEFAULT 0 NOT NULL,
    create_time REAL DEFAULT 0 NOT NULL,
    complete_time REAL,
    njobs INTEGER DEFAULT 0 NOT NULL,
    n_success INTEGER DEFAULT 0 NOT NULL,
    n_error INTEGER DEFAULT 0 NOT NULL,
    priority INTEGER DEFAULT 0 NOT NULL,
    fair_weight REAL DEFAULT 1 NOT NULL,
    turn REAL DEFAULT 0 NOT NULL,
    released_seq INTEGER DEFAULT 0 NOT NULL,
    archived INTEGER DEFAULT 0 NOT NULL
) STRICT;
INSERT INTO "batch" VALUES(1,'batch',1,NULL,NULL,2,1800000000.0,1800010800.0,3,3,0,0,1.0,6000.0,0,0);
INSERT INTO "batch" VALUES(2,'batch',2,NULL,NULL,2,1800010800.0,1800010800.0,1,0,1,0,1.0,8000.0,0,0);
INSERT INTO "batch" VALUES(3,'batch',2,NULL,NULL,1,1800010800.0,NULL,1,0,0,0,1.0,10000.0,0,0);
INSERT INTO "batch" VALUES(4,'batch',2,NULL,NULL,3,1800529200.0,NULL,2,0,2,0,1.0,14000.0,0,0);
INSERT INTO "batch" VALUES(5,'batch',1,NULL,NULL,4,1800529200.0,1801047600.0,1,1,0,0,1.0,12000.0,-1,0);
INSERT INTO "batch" VALUES(6,'batch',3,NULL,NULL,2,1801047600.0,1801049400.0,3,3,0,0,1.0,18000.0,0,0);
INSERT INTO "batch" VALUES(7,'batch',4,NULL,NULL,2,1801049400.0,1801049400.0,1,1,0,0,1.0,19000.0,0,0);
INSERT INTO "batch" VALUES(8,'batch',4,NULL,NULL,2,1801049400.0,1801999800.0,1,1,0,0,1.0,20000.0,0,0);
INSERT INTO "batch" VALUES(9,'batch',5,NULL,NULL,1,1801999800.0,NULL,2,0,0,0,1.0,23000.0,0,0);
INSERT INTO "batch" VALUES(10,'batch',5,NULL,NULL,1,1801999800.0,NULL,2,0,0,0,1.0,27000.0,0,0);
CREATE TABLE code_sign_key (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    public_key TEXT DEFAULT '' NOT NULL,
    create_time REAL DEFAULT 0 NOT NULL,
    is_current INTEGER DEFAULT 0 NOT NULL,
    successor_signature TEXT DEFAULT '' NOT NULL
) STRICT;
INSERT INTO "code_sign_key" VALUES(1,'1024
fa441d79a09f8bf9cc4cbc43a419c872f2c1eee640ccf2a4d3e3324d7376369b
5913dd33f9c2dce10030c0bdc55c908336a2929cab2cec005d7a6365a00486fe
166accb197b4ede8bdf1fb35281870c3b3192b63323bb0e6d41619257d0d0264
d16d7759bfc42b87960b65658d730915b3394e0ac09e1a4cd33ccf18530f9cf1
0000000000000000000000000000000000000000000000000000000000000000
0000000000000000000000000000000000000000000000000000000000000000
0000000000000000000000000000000000000000000000000000000000000000
0000000000000000000000000000000000000000000000000000000000010001
.',1800000000.0,1,'');
CREATE TABLE consent (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER DEFAULT 0 NOT NULL,
    kind TEXT DEFAULT '' NOT NULL,
    agreed INTEGER DEFAULT 0 NOT NULL,
    time REAL DEFAULT 0 NOT NULL,
    source TEXT DEFAULT '' NOT NULL
) STRICT;
INSERT INTO "consent" VALUES(1,1,'statistics',1,1801913400.0,'page');
CREATE TABLE contribution (
    owner TEXT NOT NULL,
    owner_id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    total_credit REAL DEFAULT 0 NOT NULL,
    expavg_credit REAL DEFAULT 0 NOT NULL,
    expavg_time REAL DEFAULT 0 NOT NULL,
    PRIMARY KEY (owner, owner_id, kind)
) STRICT;
INSERT INTO "contribution" VALUES('host',1,'storage',33750.0,4.10242247852585569488e+03,1801675800.0);
INSERT INTO "contribution" VALUES('user',1,'storage',33750.0,4.10242247852585569488e+03,1801675800.0);
INSERT INTO "contribution" VALUES('host',1,'received',5057.0,5.67139677536263320679e+02,1801049400.0);
INSERT INTO "contribution" VALUES('host',1,'sent',420006.0,2.76532289279875578358e+05,1801049400.0);
INSERT INTO "contribution" VALUES('host',2,'received',38.0,7.01531490747825756679e+01,1801049400.0);
INSERT INTO "contribution" VALUES('host',2,'sent',210000.0,6.73386294361119903603e+06,1801049400.0);
INSERT INTO "contribution" VALUES('host',3,'received',19.0,456.0,1800010800.0);
INSERT INTO "contribution" VALUES('user',1,'received',5057.0,5.67139677536263320679e+02,1801049400.0);
INSERT INTO "contribution" VALUES('user',1,'sent',420006.0,2.76532289279875578358e+05,1801049400.0);
INSERT INTO "contribution" VALUES('user',2,'received',38.0,7.01531490747825756679e+01,1801049400.0);
INSERT INTO "contribution" VALUES('user',2,'sent',210000.0,6.73386294361119903603e+06,1801049400.0);
INSERT INTO "contribution" VALUES('user',3,'received',19.0,456.0,1800010800.0);
CREATE TABLE contribution_entry (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    time REAL DEFAULT 0 NOT NULL,
    kind TEXT DEFAULT '' NOT NULL,
    host_id INTEGER DEFAULT 0 NOT NULL,
    user_id INTEGER DEFAULT 0 NOT NULL,
    amount REAL DEFAULT 0 NOT NULL,
    work_start REAL DEFAULT 0 NOT NULL,
    facts TEXT DEFAULT '{}' NOT NULL
) STRICT;
INSERT INTO "contribution_entry" VALUES(1,1801135800.0,'storage',1,1,2500.0,1801071000.0,'{"until":1801114200.0,"file":"kept_2c78e7216b85903d179400aafe201993","offset":0,"length":5000}');
INSERT INTO "contribution_entry" VALUES(2,1801179000.0,'storage',1,1,2500.0,1801114200.0,'{"until":1801157400.0,"file":"kept_2c78e7216b85903d179400aafe201993","offset":0,"length":5000}');
INSERT INTO "contribution_entry" VALUES(3,1801243800.0,'storage',1,1,3750.0,1801157400.0,'{"until":1801222200.0,"file":"kept_2c78e7216b85903d179400aafe201993","offset":0,"length":5000}');
INSERT INTO "contribution_entry" VALUES(4,1801438200.0,'storage',1,1,11250.0,1801222200.0,'{"until":1801416600.0,"file":"kept_2c78e7216b85903d179400aafe201993","offset":0,"length":5000}');
INSERT INTO "contribution_entry" VALUES(5,1801675800.0,'storage',1,1,13750.0,1801416600.0,'{"until":1801654200.0,"file":"kept_2c78e7216b85903d179400aafe201993","offset":0,"length":5000}');
INSERT INTO "contribution_entry" VALUES(6,1800007200.0,'sent',1,1,70000.0,1800000000.0,'{"result":3}');
INSERT INTO "contribution_entry" VALUES(7,1800007200.0,'received',1,1,19.0,1800000000.0,'{"result":3,"files":["search_eb2955b56cc4994434238ad0c04632b4.sh"]}');
INSERT INTO "contribution_entry" VALUES(8,1800007200.0,'received',2,2,19.0,1800000000.0,'{"result":4,"files":["search_eb2955b56cc4994434238ad0c04632b4.sh"]}');
INSERT INTO "contribution_entry" VALUES(9,1800007200.0,'sent',1,1,70000.0,1800000000.0,'{"result":5}');
INSERT INTO "contribution_entry" VALUES(10,1800010800.0,'sent',1,1,70000.0,1800000000.0,'{"result":1}');
INSERT INTO "contribution_entry" VALUES(11,1800010800.0,'received',3,3,19.0,1800007200.0,'{"result":7,"files":["search_eb2955b56cc4994434238ad0c04632b4.sh"]}');
INSERT INTO "contribution_entry" VALUES(12,1801049400.0,'sent',1,1,70000.0,1801047600.0,'{"result":23}');
INSERT INTO "contribution_entry" VALUES(13,1801049400.0,'received',1,1,19.0,1801047600.0,'{"result":23,"files":["survey_d23bddda43e2ad10a8081b30db701dac.sh"]}');
INSERT INTO "contribution_entry" VALUES(14,1801049400.0,'sent',2,2,70000.0,1801048500.0,'{"result":24}');
INSERT INTO "contribution_entry" VALUES(15,1801049400.0,'received',2,2,19.0,1801048500.0,'{"result":24,"files":["survey_d23bddda43e2ad10a8081b30db701dac.sh"]}');
INSERT INTO "contribution_entry" VALUES(16,1801049400.0,'sent',1,1,70000.0,1801047600.0,'{"result":25}');
INSERT INTO "contribution_entry" VALUES(17,1801049400.0,'sent',2,2,70000.0,1801048500.0,'{"result":26}');
INSERT INTO "contribution_entry" VALUES(18,1801049400.0,'sent',1,1,70000.0,1801047600.0,'{"result":27}');
INSERT INTO "contribution_entry" VALUES(19,1801049400.0,'sent',2,2,70000.0,1801048500.0,'{"result":28}');
INSERT INTO "contribution_entry" VALUES(20,1801049400.0,'sent',1,1,6.0,1801049400.0,'{"result":29}');
INSERT INTO "contribution_entry" VALUES(21,1801049400.0,'received',1,1,5019.0,1801049400.0,'{"result":29,"files":["keeper_cbb10af7f398a86e3751da7b7ff9df34.sh","kept_2c78e7216b85903d179400aafe201993"]}');
CREATE TABLE credit_day (
    owner TEXT NOT NULL,
    owner_id INTEGER NOT NULL,
    day INTEGER NOT NULL,
    n_days INTEGER DEFAULT 1 NOT NULL,
    granted REAL DEFAULT 0 NOT NULL,
    n_results INTEGER DEFAULT 0 NOT NULL,
    total REAL DEFAULT 0 NOT NULL,
    total_results INTEGER DEFAULT 0 NOT NULL,
    expavg_credit REAL DEFAULT 0 NOT NULL,
    expavg_time REAL DEFAULT 0 NOT NULL,
    PRIMARY KEY (owner, owner_id, day)
) STRICT;
INSERT INTO "credit_day" VALUES('user',1,20833,1,2.41245251661918391761e+00,3,2.41245251661918391761e+00,3,2.37594681819460917804e-01,1800010800.0);
INSERT INTO "credit_day" VALUES('user',1,20845,1,9.25949490018338217112e+00,5,1.16719474168025652007e+01,8,9.83321799380536432089e-01,1801049400.0);
INSERT INTO "credit_day" VALUES('host',1,20833,1,2.41245251661918391761e+00,3,2.41245251661918391761e+00,3,2.37594681819460917804e-01,1800010800.0);
INSERT INTO "credit_day" VALUES('host',1,20845,1,9.25949490018338217112e+00,5,1.16719474168025652007e+01,8,9.83321799380536432089e-01,1801049400.0);
INSERT INTO "credit_day" VALUES('user',2,20833,1,1.80199430199430232768e+00,2,1.80199430199430232768e+00,2,1.78068233648813301073e-01,1800007200.0);
INSERT INTO "credit_day" VALUES('user',2,20845,1,4.61589464231161272778e+00,3,6.41788894430591660977e+00,5,5.05655416327603690618e-01,1801049400.0);
INSERT INTO "credit_day" VALUES('host',2,20833,1,1.80199430199430232768e+00,2,1.80199430199430232768e+00,2,1.78068233648813301073e-01,1800007200.0);
INSERT INTO "credit_day" VALUES('host',2,20845,1,4.61589464231161272778e+00,3,6.41788894430591660977e+00,5,5.05655416327603690618e-01,1801049400.0);
INSERT INTO "credit_day" VALUES('user',3,20833,1,1.06095679012345711633e+00,1,1.06095679012345711633e+00,1,1.04409525528764146606e-01,1800010800.0);
INSERT INTO "credit_day" VALUES('user',3,20845,1,2.3148148148148148806e+00,1,3.37577160493827221898e+00,2,2.55910872907211928151e-01,1801047600.0);
INSERT INTO "credit_day" VALUES('host',3,20833,1,1.06095679012345711633e+00,1,1.06095679012345711633e+00,1,1.04409525528764146606e-01,1800010800.0);
INSERT INTO "credit_day" VALUES('host',3,20845,1,2.3148148148148148806e+00,1,3.37577160493827221898e+00,2,2.55910872907211928151e-01,1801047600.0);
CREATE TABLE credit_decay (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    time REAL DEFAULT 0 NOT NULL,
    table_name TEXT DEFAULT '' NOT NULL,
    first_id INTEGER DEFAULT 0 NOT NULL,
    last_id INTEGER DEFAULT 0 NOT NULL,
    last_entry_id INTEGER DEFAULT 0 NOT NULL
) STRICT;
INSERT INTO "credit_decay" VALUES(1,1801999800.0,'host',1,3,21);
INSERT INTO "credit_decay" VALUES(2,1801999800.0,'user_account',1,3,21);
INSERT INTO "credit_decay" VALUES(3,1801999800.0,'app_version',1,5,21);
CREATE TABLE credit_entry (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    time REAL DEFAULT 0 NOT NULL,
    result_id INTEGER DEFAULT 0 NOT NULL,
    workunit_id INTEGER DEFAULT 0 NOT NULL,
    host_id INTEGER DEFAULT 0 NOT NULL,
    user_id INTEGER DEFAULT 0 NOT NULL,
    team_id INTEGER,
    app_version_id INTEGER,
    kind TEXT DEFAULT '' NOT NULL,
    system TEXT DEFAULT '' NOT NULL,
    claimed REAL DEFAULT 0 NOT NULL,
    granted REAL DEFAULT 0 NOT NULL,
    unit REAL DEFAULT 0 NOT NULL,
    work_start REAL DEFAULT 0 NOT NULL,
    reasons TEXT DEFAULT '[]' NOT NULL,
    facts TEXT DEFAULT '{}' NOT NULL
) STRICT;
INSERT INTO "credit_entry" VALUES(1,1800003600.0,1,1,1,1,NULL,1,'trickle','trickle',4.16666666666666629659e-01,4.16666666666666629659e-01,200.0,1799917200.0,'[["trickle","{amount}: {seconds} s x {speed} per second.",{"amount":0.41666666666666663,"seconds":60.0,"speed":3000000000.0}]]','{"trickle":[60.0,3000000000.0,true,1800000000.0,0.0,231.48148148148147,0.0,25.0,0.0],"rules":[86400.0,3300000000.0,10000000000.0]}');
INSERT INTO "credit_entry" VALUES(2,1800007200.0,3,2,1,1,NULL,1,'grant','creditnew-deployed',0.763888888888889,9.00997150997151163842e-01,200.0,1800000000.0,'[["scaled_pfc","{seconds} s x {peak_flops} FLOPS x version scale {version_scale}{about_version} x host scale {host_scale}{about_host} = {flops}.",{"seconds":110.00000000000001,"peak_flops":3000000000.0,"version_scale":1.0,"about_version":{"text":" (not known yet: versions need 100 samples)","sentence":" (not known yet: versions need {n} samples)","values":{"n":100}},"host_scale":1.0,"about_host":{"text":" (not known yet: fewer than 10 samples of this host)","sentence":" (not known yet: fewer than {n} samples of this host)","values":{"n":10}},"flops":330000000000.00006}],["pegged_average","Granted {amount}: average of {n} {n:claim|claims} ({normal} normal), weighted by their distance from the estimate {peg}.",{"amount":0.9009971509971512,"n":2,"normal":0,"peg":2.314814814814815}]]','{"result":[110.00000000000001,100.0,1800000000.0,1800007200.0,3000000000.0,4.0,3000000000.0,4000000000.0,0.0,0.0,0.0,0.0,"normal",false,true,false,7200.0,1],"host":[0,0.1,true,1800432000.0,[0,0.0,0.0,0.0],[0,0.0,0.0,0.0],[0,0.0,0.0,0.0]],"version":[0.0,[0,0.0,0.0,0.0]],"app":[1.0,false,1.0,0.0],"workunit":[1000000000000.0,100000000000000.0,0.0],"max_granted":73000000.0}');
INSERT INTO "credit_entry" VALUES(3,1800007200.0,4,2,2,2,NULL,1,'grant','creditnew-deployed',1.01851851851851860075e+00,9.00997150997151163842e-01,200.0,1800000000.0,'[["scaled_pfc","{seconds} s x {peak_flops} FLOPS x version scale {version_scale}{about_version} x host scale {host_scale}{about_host} = {flops}.",{"seconds":110.00000000000001,"peak_flops":4000000000.0,"version_scale":1.0,"about_version":{"text":" (not known yet: versions need 100 samples)","sentence":" (not known yet: versions need {n} samples)","values":{"n":100}},"host_scale":1.0,"about_host":{"text":" (not known yet: fewer than 10 samples of this host)","sentence":" (not known yet: fewer than {n} samples of this host)","values":{"n":10}},"flops":440000000000.00006}],["pegged_average","Granted {amount}: average of {n} {n:claim|claims} ({normal} normal), weighted by their distance from the estimate {peg}.",{"amount":0.9009971509971512,"n":2,"normal":0,"peg":2.314814814814815}]]','{"result":[110.00000000000001,100.0,1800000000.0,1800007200.0,4000000000.0,4.0,4000000000.0,4000000000.0,0.0,0.0,0.0,0.0,"normal",false,false,false,7200.0,1],"host":[0,0.1,true,1800432000.0,[0,0.0,0.0,0.0],[0,0.0,0.0,0.0],[0,0.0,0.0,0.0]],"version":[0.0,[0,0.0,0.0,0.0]],"app":[1.0,false,1.0,0.0],"workunit":[1000000000000.0,100000000000000.0,0.0],"max_granted":73000000.0}');
INSERT INTO "credit_entry" VALUES(4,1800007200.0,5,3,1,1,NULL,1,'grant','creditnew-deployed',0.763888888888889,9.00997150997151163842e-01,200.0,1800000000.0,'[["scaled_pfc","{seconds} s x {peak_flops} FLOPS x version scale {version_scale}{about_version} x host scale {host_scale}{about_host} = {flops}.",{"seconds":110.00000000000001,"peak_flops":3000000000.0,"version_scale":1.0,"about_version":{"text":" (not known yet: versions need 100 samples)","sentence":" (not known yet: versions need {n} samples)","values":{"n":100}},"host_scale":1.0,"about_host":{"text":" (not known yet: fewer than 10 samples of this host)","sentence":" (not known yet: fewer than {n} samples of this host)","values":{"n":10}},"flops":330000000000.00006}],["pegged_average","Granted {amount}: average of {n} {n:claim|claims} ({normal} normal), weighted by their distance from the estimate {peg}.",{"amount":0.9009971509971512,"n":2,"normal":0,"peg":2.314814814814815}]]','{"result":[110.00000000000001,100.0,1800000000.0,1800007200.0,3000000000.0,4.0,3000000000.0,4000000000.0,0.0,0.0,0.0,0.0,"normal",false,true,false,7200.0,1],"host":[1,0.095,true,1800432000.0,[1,0.33000000000000007,0.0,0.0],[1,1.1000000000000001e-10,0.0,0.0],[1,7200.0,0.0,0.0]],"version":[0.0,[2,0.38500000000000006,0.0030249999999999995,0.006049999999999999]],"app":[1.0,false,1.0,0.0],"workunit":[1000000000000.0,100000000000000.0,0.0],"max_granted":73000000.0}');
INSERT INTO "credit_entry" VALUES(5,1800007200.0,6,3,2,2,NULL,1,'grant','creditnew-deployed',1.01851851851851860075e+00,9.00997150997151163842e-01,200.0,1800000000.0,'[["scaled_pfc","{seconds} s x {peak_flops} FLOPS x version scale {version_scale}{about_version} x host scale {host_scale}{about_host} = {flops}.",{"seconds":110.00000000000001,"peak_flops":4000000000.0,"version_scale":1.0,"about_version":{"text":" (not known yet: versions need 100 samples)","sentence":" (not known yet: versions need {n} samples)","values":{"n":100}},"host_scale":1.0,"about_host":{"text":" (not known yet: fewer than 10 samples of this host)","sentence":" (not known yet: fewer than {n} samples of this host)","values":{"n":10}},"flops":440000000000.00006}],["pegged_average","Granted {amount}: average of {n} {n:claim|claims} ({normal} normal), weighted by their distance from the estimate {peg}.",{"amount":0.9009971509971512,"n":2,"normal":0,"peg":2.314814814814815}]]','{"result":[110.00000000000001,100.0,1800000000.0,1800007200.0,4000000000.0,4.0,4000000000.0,4000000000.0,0.0,0.0,0.0,0.0,"normal",false,false,false,7200.0,1],"host":[1,0.095,true,1800432000.0,[1,0.44000000000000006,0.0,0.0],[1,1.1000000000000001e-10,0.0,0.0],[1,7200.0,0.0,0.0]],"version":[0.0,[2,0.38500000000000006,0.0030249999999999995,0.006049999999999999]],"app":[1.0,false,1.0,0.0],"workunit":[1000000000000.0,100000000000000.0,0.0],"max_granted":73000000.0}');
INSERT INTO "credit_entry" VALUES(6,1800010800.0,1,1,1,1,NULL,1,'grant','creditnew-deployed',0.763888888888889,6.44290123456790486677e-01,200.0,1800000000.0,'[["scaled_pfc","{seconds} s x {peak_flops} FLOPS x version scale {version_scale}{about_version} x host scale {host_scale}{about_host} = {flops}.",{"seconds":110.00000000000001,"peak_flops":3000000000.0,"version_scale":1.0,"about_version":{"text":" (not known yet: versions need 100 samples)","sentence":" (not known yet: versions need {n} samples)","values":{"n":100}},"host_scale":1.0,"about_host":{"text":" (not known yet: fewer than 10 samples of this host)","sentence":" (not known yet: fewer than {n} samples of this host)","values":{"n":10}},"flops":330000000000.00006}],["pegged_average","Granted {amount}: average of {n} {n:claim|claims} ({normal} normal), weighted by their distance from the estimate {peg}.",{"amount":1.0609567901234571,"n":2,"normal":0,"peg":2.314814814814815}],["granted_before","Of {amount}, trickle messages already granted {provisional} while it ran; {due} is due.",{"amount":1.0609567901234571,"provisional":0.41666666666666663,"due":0.6442901234567905}]]','{"result":[110.00000000000001,100.0,1800000000.0,1800007200.0,3000000000.0,4.0,3000000000.0,4000000000.0,0.0,0.0,0.41666666666666663,0.41666666666666663,"normal",false,true,false,10800.0,1],"host":[2,0.09025,true,1800432000.0,[2,0.33000000000000007,0.0,0.0],[2,1.1000000000000001e-10,0.0,0.0],[2,7200.0,0.0,0.0]],"version":[0.0,[4,0.38500000000000006,0.0030249999999999995,0.012099999999999998]],"app":[1.0,false,1.0,0.0],"workunit":[1000000000000.0,100000000000000.0,0.0],"max_granted":73000000.0}');
INSERT INTO "credit_entry" VALUES(7,1800010800.0,7,1,3,3,NULL,1,'grant','creditnew-deployed',1.27314814814814836196e+00,1.06095679012345711633e+00,200.0,1800007200.0,'[["scaled_pfc","{seconds} s x {peak_flops} FLOPS x version scale {version_scale}{about_version} x host scale {host_scale}{about_host} = {flops}.",{"seconds":110.00000000000001,"peak_flops":5000000000.0,"version_scale":1.0,"about_version":{"text":" (not known yet: versions need 100 samples)","sentence":" (not known yet: versions need {n} samples)","values":{"n":100}},"host_scale":1.0,"about_host":{"text":" (not known yet: fewer than 10 samples of this host)","sentence":" (not known yet: fewer than {n} samples of this host)","values":{"n":10}},"flops":550000000000.0001}],["pegged_average","Granted {amount}: average of {n} {n:claim|claims} ({normal} normal), weighted by their distance from the estimate {peg}.",{"amount":1.0609567901234571,"n":2,"normal":0,"peg":2.314814814814815}]]','{"result":[110.00000000000001,100.0,1800007200.0,1800010800.0,5000000000.0,4.0,5000000000.0,4000000000.0,0.0,0.0,0.0,0.0,"normal",false,false,false,10800.0,1],"host":[0,0.1,true,1800439200.0,[0,0.0,0.0,0.0],[0,0.0,0.0,0.0],[0,0.0,0.0,0.0]],"version":[0.0,[4,0.38500000000000006,0.0030249999999999995,0.012099999999999998]],"app":[1.0,false,1.0,0.0],"workunit":[1000000000000.0,100000000000000.0,0.0],"max_granted":73000000.0}');
INSERT INTO "credit_entry" VALUES(8,1800010800.0,3,2,1,1,NULL,1,'correction','creditnew-deployed',0.0,-4.50498575498575581921e-01,200.0,1800000000.0,'[["kept","Half of it.",{}]]','{"granted_time":1800007200.0}');
INSERT INTO "credit_entry" VALUES(9,1801047600.0,21,8,3,3,NULL,3,'grant','creditnew-deployed',2.3148148148148148806e+00,2.3148148148148148806e+00,200.0,1801047600.0,'[["no_run_time","No usable run time was reported: the job''s estimate is used.",{}],["pegged_average","Granted {amount}: average of {n} {n:claim|claims} ({normal} normal), weighted by their distance from the estimate {peg}.",{"amount":2.314814814814815,"n":2,"normal":0,"peg":2.314814814814815}]]','{"result":[0.0,0.0,1801047600.0,1801047600.0,5000000000.0,4.0,5000000000.0,4000000000.0,0.0,0.0,0.0,0.0,"normal",false,true,false,1047600.0,1],"host":[1,0.095,true,1800439200.0,[1,0.5500000000000002,0.0,0.0],[1,1.1000000000000001e-10,0.0,0.0],[1,3600.0,0.0,0.0]],"version":[0.0,[0,0.0,0.0,0.0]],"app":[1.0,false,1.0,0.0],"workunit":[1000000000000.0,100000000000000.0,0.0],"max_granted":73000000.0}');
INSERT INTO "credit_entry" VALUES(10,1801047600.0,22,8,1,1,NULL,3,'grant','creditnew-deployed',2.3148148148148148806e+00,2.3148148148148148806e+00,200.0,1801047600.0,'[["no_run_time","No usable run time was reported: the job''s estimate is used.",{}],["pegged_average","Granted {amount}: average of {n} {n:claim|claims} ({normal} normal), weighted by their distance from the estimate {peg}.",{"amount":2.314814814814815,"n":2,"normal":0,"peg":2.314814814814815}]]','{"result":[0.0,0.0,1801047600.0,1801047600.0,3000000000.0,4.0,3000000000.0,4000000000.0,0.0,0.0,0.0,0.0,"normal",false,false,false,1047600.0,1],"host":[3,0.0857375,true,1800432000.0,[3,0.33000000000000007,0.0,0.0],[3,1.1000000000000001e-10,0.0,0.0],[3,7200.0,0.0,0.0]],"version":[0.0,[0,0.0,0.0,0.0]],"app":[1.0,false,1.0,0.0],"workunit":[1000000000000.0,100000000000000.0,0.0],"max_granted":73000000.0}');
INSERT INTO "credit_entry" VALUES(11,1801049400.0,23,9,1,1,NULL,4,'escrow','ledger',2.31241201005368779419e+00,2.31241201005368779419e+00,200.0,1801047600.0,'[["ledger_partners","Granted {amount}: the estimate is worth {value}, and other computers ({n}) found the job {factor} times as long. Their reports count with weight {weight}; its own report did not raise the credit.",{"amount":2.312412010053688,"value":2.314814814814815,"n":1,"weight":0.0017519430227076077,"factor":0.998961988343193}],["ledger_provisional","Provisional until the computer passes its next check. A job of ordinary size is checked with probability {chance}, drawn after its result arrived.",{"chance":1.0}]]','{"result":[110.00000000000001,100.0,1801047600.0,1801048500.0,3000000000.0,4.0,3000000000.0,4000000000.0,0.0,0.0,0.0,2.312412010053688,"normal",false,true,false,1049400.0,1],"host":[0,0.1,true,1801479600.0,[0,0.0,0.0,0.0],[0,0.0,0.0,0.0],[0,0.0,0.0,0.0]],"version":[0.0,[0,0.0,0.0,0.0]],"app":[1.0,false,1.0,0.0],"workunit":[1000000000000.0,100000000000000.0,0.0],"max_granted":73000000.0}');
INSERT INTO "credit_entry" VALUES(12,1801049400.0,24,9,2,2,NULL,4,'escrow','ledger',2.31240841307409317195e+00,2.31240841307409317195e+00,200.0,1801048500.0,'[["ledger_partners","Granted {amount}: the estimate is worth {value}, and other computers ({n}) found the job {factor} times as long. Their reports count with weight {weight}; its own report did not raise the credit.",{"amount":2.312408413074093,"value":2.314814814814815,"n":1,"weight":0.0017519430227076077,"factor":0.9989604344480082}],["ledger_provisional","Provisional until the computer passes its next check. A job of ordinary size is checked with probability {chance}, drawn after its result arrived.",{"chance":1.0}]]','{"result":[110.00000000000001,100.0,1801048500.0,1801049400.0,4000000000.0,4.0,4000000000.0,4000000000.0,0.0,0.0,0.0,2.312408413074093,"normal",false,false,false,1049400.0,1],"host":[0,0.1,true,1801480500.0,[0,0.0,0.0,0.0],[0,0.0,0.0,0.0],[0,0.0,0.0,0.0]],"version":[0.0,[0,0.0,0.0,0.0]],"app":[1.0,false,1.0,0.0],"workunit":[1000000000000.0,100000000000000.0,0.0],"max_granted":73000000.0}');
INSERT INTO "credit_entry" VALUES(13,1801049400.0,25,10,1,1,NULL,4,'escrow','ledger',2.32217920951639689164e+00,2.32217920951639689164e+00,200.0,1801047600.0,'[["ledger_partners","Granted {amount}: the estimate is worth {value}, and other computers ({n}) found the job {factor} times as long. Their reports count with weight {weight}; its own report did not raise the credit.",{"amount":2.322179209516397,"value":2.314814814814815,"n":1,"weight":0.012550337050091419,"factor":1.0031814185110834}],["ledger_provisional","Provisional until the computer passes its next check. A job of ordinary size is checked with probability {chance}, drawn after its result arrived.",{"chance":1.0}]]','{"result":[110.00000000000001,100.0,1801047600.0,1801048500.0,3000000000.0,4.0,3000000000.0,4000000000.0,0.0,0.0,0.0,2.322179209516397,"normal",false,true,false,1049400.0,1],"host":[1,0.095,true,1801479600.0,[1,0.33000000000000007,0.0,0.0],[1,1.1000000000000001e-10,0.0,0.0],[1,900.0,0.0,0.0]],"version":[0.0,[2,0.38500000000000006,0.0030249999999999995,0.006049999999999999]],"app":[1.0,false,1.0,0.0],"workunit":[1000000000000.0,100000000000000.0,0.0],"max_granted":73000000.0}');
INSERT INTO "credit_entry" VALUES(14,1801049400.0,26,10,2,2,NULL,4,'escrow','ledger',2.31376580009197629905e+00,2.31376580009197629905e+00,200.0,1801048500.0,'[["ledger_partners","Granted {amount}: the estimate is worth {value}, and other computers ({n}) found the job {factor} times as long. Their reports count with weight {weight}; its own report did not raise the credit.",{"amount":2.3137658000919763,"value":2.314814814814815,"n":1,"weight":0.013056918959690345,"factor":0.9995468256397337}],["ledger_provisional","Provisional until the computer passes its next check. A job of ordinary size is checked with probability {chance}, drawn after its result arrived.",{"chance":1.0}]]','{"result":[110.00000000000001,100.0,1801048500.0,1801049400.0,4000000000.0,4.0,4000000000.0,4000000000.0,0.0,0.0,0.0,2.3137658000919763,"normal",false,false,false,1049400.0,1],"host":[1,0.095,true,1801480500.0,[1,0.44000000000000006,0.0,0.0],[1,1.1000000000000001e-10,0.0,0.0],[1,900.0,0.0,0.0]],"version":[0.0,[2,0.38500000000000006,0.0030249999999999995,0.006049999999999999]],"app":[1.0,false,1.0,0.0],"workunit":[1000000000000.0,100000000000000.0,0.0],"max_granted":73000000.0}');
INSERT INTO "credit_entry" VALUES(15,1801049400.0,27,11,1,1,NULL,4,'escrow','ledger',2.31256966076871,2.31256966076871,200.0,1801047600.0,'[["ledger_partners","Granted {amount}: the estimate is worth {value}, and other computers ({n}) found the job {factor} times as long. Their reports count with weight {weight}; its own report did not raise the credit.",{"amount":2.31256966076871,"value":2.314814814814815,"n":1,"weight":0.02907274082727323,"factor":0.9990300934520827}],["ledger_provisional","Provisional until the computer passes its next check. A job of ordinary size is checked with probability {chance}, drawn after its result arrived.",{"chance":1.0}]]','{"result":[110.00000000000001,100.0,1801047600.0,1801048500.0,3000000000.0,4.0,3000000000.0,4000000000.0,0.0,0.0,0.0,2.31256966076871,"normal",false,true,false,1049400.0,1],"host":[2,0.09025,true,1801479600.0,[2,0.33000000000000007,0.0,0.0],[2,1.1000000000000001e-10,0.0,0.0],[2,900.0,0.0,0.0]],"version":[0.0,[4,0.38500000000000006,0.0030249999999999995,0.012099999999999998]],"app":[1.0,false,1.0,0.0],"workunit":[1000000000000.0,100000000000000.0,0.0],"max_granted":73000000.0}');
INSERT INTO "credit_entry" VALUES(16,1801049400.0,28,11,2,2,NULL,4,'escrow','ledger',2.30280753572857888045e+00,2.30280753572857888045e+00,200.0,1801048500.0,'[["ledger_partners","Granted {amount}: the estimate is worth {value}, and other computers ({n}) found the job {factor} times as long. Their reports count with weight {weight}; its own report did not raise the credit.",{"amount":2.302807535728579,"value":2.314814814814815,"n":1,"weight":0.029761356002118995,"factor":0.994812855434746}],["ledger_provisional","Provisional until the computer passes its next check. A job of ordinary size is checked with probability {chance}, drawn after its result arrived.",{"chance":1.0}]]','{"result":[110.00000000000001,100.0,1801048500.0,1801049400.0,4000000000.0,4.0,4000000000.0,4000000000.0,0.0,0.0,0.0,2.302807535728579,"normal",false,false,false,1049400.0,1],"host":[2,0.09025,true,1801480500.0,[2,0.44000000000000006,0.0,0.0],[2,1.1000000000000001e-10,0.0,0.0],[2,900.0,0.0,0.0]],"version":[0.0,[4,0.38500000000000006,0.0030249999999999995,0.012099999999999998]],"app":[1.0,false,1.0,0.0],"workunit":[1000000000000.0,100000000000000.0,0.0],"max_granted":73000000.0}');
INSERT INTO "credit_entry" VALUES(17,1801049400.0,23,9,1,1,NULL,4,'settlement','ledger',0.0,-1.15620600502684389709e+00,200.0,1801049400.0,'[["ledger_held","Part of the first credit of a new computer is held, and paid later, less what unfinished jobs cost.",{}]]','{"granted_time":1801049400.0,"event":2,"record":[1,4,"1"]}');
INSERT INTO "credit_entry" VALUES(18,1801049400.0,24,9,2,2,NULL,4,'settlement','ledger',0.0,-1.15620420653704658597e+00,200.0,1801049400.0,'[["ledger_held","Part of the first credit of a new computer is held, and paid later, less what unfinished jobs cost.",{}]]','{"granted_time":1801049400.0,"event":2,"record":[2,4,"1"]}');
INSERT INTO "credit_entry" VALUES(19,1801049400.0,25,10,1,1,NULL,4,'settlement','ledger',0.0,-1.16108960475819822377e+00,200.0,1801049400.0,'[["ledger_held","Part of the first credit of a new computer is held, and paid later, less what unfinished jobs cost.",{}]]','{"granted_time":1801049400.0,"event":3,"record":[1,4,"1"]}');
INSERT INTO "credit_entry" VALUES(20,1801049400.0,26,10,2,2,NULL,4,'settlement','ledger',0.0,-1.15688290004598792748e+00,200.0,1801049400.0,'[["ledger_held","Part of the first credit of a new computer is held, and paid later, less what unfinished jobs cost.",{}]]','{"granted_time":1801049400.0,"event":3,"record":[2,4,"1"]}');
INSERT INTO "credit_entry" VALUES(21,1801049400.0,29,12,1,1,NULL,5,'grant','benchmark',2.3148148148148148806e+00,2.3148148148148148806e+00,200.0,1801049400.0,'[["no_run_time","No usable time was reported: the job''s estimate, {amount}, is used.",{"amount":2.314814814814815}],["combined","Granted {amount}: {combination} of {n} {n:claim|claims}.",{"amount":2.314814814814815,"combination":{"text":"mean","sentence":"mean","values":{}},"n":1}]]','{"result":[0.0,0.0,1801049400.0,1801049400.0,3000000000.0,4.0,3000000000.0,4000000000.0,0.0,0.0,0.0,0.0,"normal",false,true,false,1049400.0,1],"host":[0,0.1,true,1801654200.0,[0,0.0,0.0,0.0],[0,0.0,0.0,0.0],[0,0.0,0.0,0.0]],"version":[0.0,[0,0.0,0.0,0.0]],"app":[1.0,false,1.0,0.0],"workunit":[1000000000000.0,864000000000000.0,0.0],"max_granted":73000000.0}');
INSERT INTO "credit_entry" VALUES(22,1801999800.0,30,13,1,1,1,5,'grant','benchmark',2.3148148148148148806e+00,2.3148148148148148806e+00,200.0,1801999800.0,'[["no_run_time","No usable time was reported: the job''s estimate, {amount}, is used.",{"amount":2.314814814814815}],["combined","Granted {amount}: {combination} of {n} {n:claim|claims}.",{"amount":2.314814814814815,"combination":{"text":"mean","sentence":"mean","values":{}},"n":1}]]','{"result":[0.0,0.0,1801999800.0,1801999800.0,3000000000.0,4.0,3000000000.0,4000000000.0,0.0,0.0,0.0,0.0,"normal",false,true,false,1999800.0,1],"host":[1,0.095,true,1801654200.0,[0,0.0,0.0,0.0],[0,0.0,0.0,0.0],[0,0.0,0.0,0.0]],"version":[0.0,[0,0.0,0.0,0.0]],"app":[1.0,false,1.0,0.0],"workunit":[1000000000000.0,864000000000000.0,0.0],"max_granted":73000000.0}');
CREATE TABLE credit_inheritance (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    time REAL DEFAULT 0 NOT NULL,
    host_id INTEGER DEFAULT 0 NOT NULL,
    from_version_id INTEGER DEFAULT 0 NOT NULL,
    to_version_id INTEGER DEFAULT 0 NOT NULL,
    last_entry_id INTEGER DEFAULT 0 NOT NULL
) STRICT;
INSERT INTO "credit_inheritance" VALUES(1,1800529200.0,2,1,3,8);
INSERT INTO "credit_inheritance" VALUES(2,1801047600.0,1,1,3,8);
INSERT INTO "credit_inheritance" VALUES(3,1801047600.0,3,1,3,8);
CREATE TABLE deletion (
    owner TEXT NOT NULL,
    owner_id INTEGER NOT NULL,
    cpid TEXT DEFAULT '' NOT NULL,
    time REAL DEFAULT 0 NOT NULL,
    PRIMARY KEY (owner, owner_id)
) STRICT;
INSERT INTO "deletion" VALUES('user',1,'b6c5c7349fe944289869331b85f5b00f',1801913400.0);
INSERT INTO "deletion" VALUES('host',1,'2d3c87458b690eb68a5c887ebd2e9b56',1801913400.0);
INSERT INTO "deletion" VALUES('host',4,'65f4323ae27c7d0ac920684b11cd38fd',1801913400.0);
CREATE TABLE ended_session (
    session_hash TEXT NOT NULL PRIMARY KEY,
    expire_time REAL DEFAULT 0 NOT NULL
) STRICT;
INSERT INTO "ended_session" VALUES('a session',1801999800.0);
CREATE TABLE escrow (
    result_id INTEGER NOT NULL PRIMARY KEY,
    workunit_id INTEGER DEFAULT 0 NOT NULL,
    app_id INTEGER DEFAULT 0 NOT NULL,
    host_id INTEGER DEFAULT 0 NOT NULL,
    app_version_id INTEGER DEFAULT 0 NOT NULL,
    usage TEXT DEFAULT '' NOT NULL,
    user_id INTEGER DEFAULT 0 NOT NULL,
    price REAL DEFAULT 0 NOT NULL,
    audit INTEGER DEFAULT 0 NOT NULL
) STRICT;
INSERT INTO "escrow" VALUES(23,9,3,1,4,'1',1,2.31241201005368779419e+00,0);
INSERT INTO "escrow" VALUES(24,9,3,2,4,'1',2,2.31240841307409317195e+00,0);
INSERT INTO "escrow" VALUES(25,10,3,1,4,'1',1,2.32217920951639689164e+00,0);
INSERT INTO "escrow" VALUES(26,10,3,2,4,'1',2,2.31376580009197629905e+00,0);
INSERT INTO "escrow" VALUES(27,11,3,1,4,'1',1,2.31256966076871,0);
INSERT INTO "escrow" VALUES(28,11,3,2,4,'1',2,2.30280753572857888045e+00,0);
CREATE TABLE file (
    name TEXT NOT NULL PRIMARY KEY,
    nbytes INTEGER DEFAULT 0 NOT NULL,
    md5 TEXT DEFAULT '' NOT NULL,
    gzipped_nbytes INTEGER,
    refs INTEGER DEFAULT 0 NOT NULL,
    touched_time REAL DEFAULT 0 NOT NULL
) STRICT;
INSERT INTO "file" VALUES('search_eb2955b56cc4994434238ad0c04632b4.sh',19,'15c2796b88a7fe61e29bd231598ac359',NULL,2,1800000000.0);
INSERT INTO "file" VALUES('fragile_21f2c793b2dd479f6021e21d2bb202be.sh',20,'d94ddbbb297e9aad4eb3f74d0368bae9',NULL,1,1800010800.0);
INSERT INTO "file" VALUES('survey_d23bddda43e2ad10a8081b30db701dac.sh',19,'fb061c4309eaa50c99a55f65f6659d26',NULL,1,1801047600.0);
INSERT INTO "file" VALUES('kept_2c78e7216b85903d179400aafe201993',5000,'a633e020972199bb8a244dc1c656a1fe',NULL,0,1801999800.0);
INSERT INTO "file" VALUES('keeper_cbb10af7f398a86e3751da7b7ff9df34.sh',19,'509930986cefdfa6af9c974479f067e3',NULL,1,1801049400.0);
INSERT INTO "file" VALUES('open_63b23a5920ed4fb2485119e1484c6213.sh',17,'3c36cfadc83976efdc7469530e4a6937',NULL,1,1801999800.0);
CREATE TABLE host (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER DEFAULT 0 NOT NULL,
    host_cpid TEXT DEFAULT '' NOT NULL,
    rpc_seqno INTEGER DEFAULT 0 NOT NULL,
    rpc_time REAL DEFAULT 0 NOT NULL,
    create_time REAL DEFAULT 0 NOT NULL,
    venue TEXT DEFAULT '' NOT NULL,
    domain_name TEXT DEFAULT '' NOT NULL,
    label TEXT DEFAULT '' NOT NULL,
    hidden INTEGER DEFAULT 0 NOT NULL,
    removed_time REAL,
    external_ip_addr TEXT DEFAULT '' NOT NULL,
    description TEXT DEFAULT '{}' NOT NULL,
    blocked_reason TEXT DEFAULT '' NOT NULL,
    trouble TEXT DEFAULT '' NOT NULL,
    trouble_time REAL DEFAULT 0 NOT NULL,
    merged_into INTEGER,
    total_credit REAL DEFAULT 0 NOT NULL,
    expavg_credit REAL DEFAULT 0 NOT NULL,
    expavg_time REAL DEFAULT 0 NOT NULL
) STRICT;
INSERT INTO "host" VALUES(1,1,'2d3c87458b690eb68a5c887ebd2e9b56',55,1801999800.0,1800000000.0,'','ada-pc','',0,NULL,'127.0.0.1','{"timezone":0,"p_ncpus":4,"p_vendor":"Vendor","p_model":"Model","p_fpops":3000000000.0,"p_iops":4000000000.0,"p_membw":1000000000.0,"m_nbytes":16000000000.0,"m_cache":0.0,"m_swap":0.0,"d_total":200000000000.0,"d_free":100000000000.0,"os_name":"Linux Debian","os_version":"","n_bwup":0.0,"n_bwdown":0.0,"coprocessors":[],"domain_name":"ada-pc","ip_addr":"","p_features":"","d_boinc_used_total":0.0,"d_boinc_used_project":0.0,"product_name":"","virtualbox_version":"","docker_version":"","on_frac":1.0,"connected_frac":-1.0,"active_frac":1.0,"gpu_active_frac":1.0,"client_version":72005,"platforms":["x86_64-pc-linux-gnu"],"usable_ncpus":4.0,"usable_ram":16000000000.0,"usable_disk":99000000000.0}','','',0.0,NULL,1.39867622316173800811e+01,5.29865698139954321987e-01,1801999800.0);
INSERT INTO "host" VALUES(2,2,'09a27773155bd64f8ab0e00b8730c374',11,1801999800.0,1800000000.0,'','bob-pc','',0,NULL,'127.0.0.1','{"timezone":0,"p_ncpus":4,"p_vendor":"Vendor","p_model":"Model","p_fpops":4000000000.0,"p_iops":4000000000.0,"p_membw":1000000000.0,"m_nbytes":16000000000.0,"m_cache":0.0,"m_swap":0.0,"d_total":200000000000.0,"d_free":100000000000.0,"os_name":"Linux Debian","os_version":"","n_bwup":0.0,"n_bwdown":0.0,"coprocessors":[],"domain_name":"bob-pc","ip_addr":"","p_features":"","d_boinc_used_total":0.0,"d_boinc_used_project":0.0,"product_name":"","virtualbox_version":"","docker_version":"","on_frac":1.0,"connected_frac":-1.0,"active_frac":1.0,"gpu_active_frac":1.0,"client_version":72005,"platforms":["x86_64-pc-linux-gnu"],"usable_ncpus":4.0,"usable_ram":16000000000.0,"usable_disk":99000000000.0}','','',0.0,NULL,6.41788894430591660977e+00,1.39861386356051581314e-01,1801999800.0);
INSERT INTO "host" VALUES(3,3,'b771fca530ccba30d2365c6f1e407d48',8,1801047600.0,1800000000.0,'','carol-pc','',0,NULL,'127.0.0.1','{"timezone":0,"p_ncpus":4,"p_vendor":"Vendor","p_model":"Model","p_fpops":5000000000.0,"p_iops":4000000000.0,"p_membw":1000000000.0,"m_nbytes":16000000000.0,"m_cache":0.0,"m_swap":0.0,"d_total":200000000000.0,"d_free":100000000000.0,"os_name":"Linux Debian","os_version":"","n_bwup":0.0,"n_bwdown":0.0,"coprocessors":[],"domain_name":"carol-pc","ip_addr":"","p_features":"","d_boinc_used_total":0.0,"d_boinc_used_project":0.0,"product_name":"","virtualbox_version":"","docker_version":"","on_frac":1.0,"connected_frac":-1.0,"active_frac":1.0,"gpu_active_frac":1.0,"client_version":72005,"platforms":["x86_64-pc-linux-gnu"],"usable_ncpus":4.0,"usable_ram":16000000000.0,"usable_disk":99000000000.0}','','',0.0,NULL,3.37577160493827221898e+00,5.57172825447355274386e-02,1801999800.0);
INSERT INTO "host" VALUES(4,1,'65f4323ae27c7d0ac920684b11cd38fd',0,1800000000.0,1800000000.0,'','','',0,1800000000.0,'','{}','','',0.0,NULL,0.0,0.0,1800000000.0);
CREATE TABLE host_app_version (
    host_id INTEGER NOT NULL,
    app_version_id INTEGER NOT NULL,
    max_jobs_per_day INTEGER DEFAULT 0 NOT NULL,
    n_jobs_today INTEGER DEFAULT 0 NOT NULL,
    quota_day INTEGER DEFAULT 0 NOT NULL,
    consecutive_valid INTEGER DEFAULT 0 NOT NULL,
    pfc_n INTEGER DEFAULT 0 NOT NULL,
    pfc_avg REAL DEFAULT 0 NOT NULL,
    pfc_var REAL DEFAULT 0 NOT NULL,
    pfc_q REAL DEFAULT 0 NOT NULL,
    et_n INTEGER DEFAULT 0 NOT NULL,
    et_avg REAL DEFAULT 0 NOT NULL,
    et_var REAL DEFAULT 0 NOT NULL,
    et_q REAL DEFAULT 0 NOT NULL,
    turnaround_n INTEGER DEFAULT 0 NOT NULL,
    turnaround_avg REAL DEFAULT 0 NOT NULL,
    turnaround_var REAL DEFAULT 0 NOT NULL,
    turnaround_q REAL DEFAULT 0 NOT NULL,
    error_rate REAL DEFAULT 0.1 NOT NULL,
    scale_probation INTEGER DEFAULT 1 NOT NULL,
    host_scale_time REAL DEFAULT 0 NOT NULL,
    bad_results INTEGER DEFAULT 0 NOT NULL,
    PRIMARY KEY (host_id, app_version_id)
) STRICT;
INSERT INTO "host_app_version" VALUES(1,2,20,2,20834,0,0,0.0,0.0,0.0,0,0.0,0.0,0.0,0,0.0,0.0,0.0,1.87750000000000027977e-01,1,1800442800.0,2);
INSERT INTO "host_app_version" VALUES(2,2,20,2,20833,0,0,0.0,0.0,0.0,0,0.0,0.0,0.0,0,0.0,0.0,0.0,1.87750000000000027977e-01,1,1800961200.0,2);
INSERT INTO "host_app_version" VALUES(3,2,20,1,20840,0,0,0.0,0.0,0.0,0,0.0,0.0,0.0,0,0.0,0.0,0.0,1.45000000000000017763e-01,1,1800442800.0,1);
INSERT INTO "host_app_version" VALUES(2,3,20,1,20839,0,2,4.40000000000000057731e-01,0.0,0.0,2,1.10000000000000007884e-10,0.0,0.0,2,7200.0,0.0,0.0,1.78950625000000029807e-01,1,1801479600.0,1);
INSERT INTO "host_app_version" VALUES(1,3,80,1,20846,4,3,3.30000000000000071054e-01,0.0,0.0,3,1.10000000000000007884e-10,0.0,0.0,3,7200.0,0.0,0.0,8.14506249999999848432e-02,0,1800432000.0,0);
INSERT INTO "host_app_version" VALUES(3,3,80,1,20846,2,1,5.50000000000000155431e-01,0.0,0.0,1,1.10000000000000007884e-10,0.0,0.0,1,3600.0,0.0,0.0,0.09025,0,1800439200.0,0);
INSERT INTO "host_app_version" VALUES(1,4,500,3,20846,3,3,3.30000000000000071054e-01,0.0,0.0,3,1.10000000000000007884e-10,0.0,0.0,3,900.0,0.0,0.0,0.0857375,1,1801479600.0,0);
INSERT INTO "host_app_version" VALUES(2,4,500,3,20845,3,3,4.40000000000000057731e-01,0.0,0.0,3,1.10000000000000007884e-10,0.0,0.0,3,900.0,0.0,0.0,0.0857375,1,1801480500.0,0);
INSERT INTO "host_app_version" VALUES(1,5,160,1,20857,2,0,0.0,0.0,0.0,0,0.0,0.0,0.0,0,0.0,0.0,0.0,0.09025,0,1801654200.0,0);
INSERT INTO "host_app_version" VALUES(1,6,40,2,20857,0,0,0.0,0.0,0.0,0,0.0,0.0,0.0,0,0.0,0.0,0.0,0.1,1,1802431800.0,0);
INSERT INTO "host_app_version" VALUES(2,6,40,2,20856,0,0,0.0,0.0,0.0,0,0.0,0.0,0.0,0,0.0,0.0,0.0,0.1,1,1802431800.0,0);
CREATE TABLE host_storage (
    host_id INTEGER NOT NULL PRIMARY KEY,
    nbytes INTEGER DEFAULT 0 NOT NULL,
    seen REAL DEFAULT 0 NOT NULL,
    proven REAL DEFAULT 0 NOT NULL,
    claimed REAL DEFAULT 0 NOT NULL,
    challenge TEXT,
    answer TEXT DEFAULT '' NOT NULL,
    answer_time REAL DEFAULT 0 NOT NULL,
    answer_claimed REAL DEFAULT 0 NOT NULL
) STRICT;
INSERT INTO "host_storage" VALUES(1,0,1801999800.0,1801654200.0,1188000000.0,NULL,'',0.0,0.0);
CREATE TABLE kept_file (
    host_id INTEGER NOT NULL,
    file_name TEXT NOT NULL,
    user_id INTEGER DEFAULT 0 NOT NULL,
    network TEXT DEFAULT '' NOT NULL,
    nbytes INTEGER DEFAULT 0 NOT NULL,
    listed INTEGER DEFAULT 0 NOT NULL,
    counted INTEGER DEFAULT 0 NOT NULL,
    PRIMARY KEY (host_id, file_name)
) STRICT;
INSERT INTO "kept_file" VALUES(1,'kept_2c78e7216b85903d179400aafe201993',0,'',5000,0,0);
CREATE TABLE ledger_event (
    app_id INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    time REAL DEFAULT 0 NOT NULL,
    kind TEXT DEFAULT '' NOT NULL,
    facts TEXT DEFAULT '{}' NOT NULL,
    PRIMARY KEY (app_id, seq)
) STRICT;
INSERT INTO "ledger_event" VALUES(3,1,1801049400.0,'Begun','{"early_exits":false,"unit":2.3148148148148147e-12}');
INSERT INTO "ledger_event" VALUES(3,2,1801049400.0,'JobDecided','{"job":{"estimate":1000000000000.0,"stratum":""},"reports":[{"result_id":23,"host":[1,4,"1"],"owner":1,"run_time":110.00000000000001,"speed":3000000000.0},{"result_id":24,"host":[2,4,"1"],"owner":2,"run_time":110.00000000000001,"speed":4000000000.0}],"quorum":2,"checked":[]}');
INSERT INTO "ledger_event" VALUES(3,3,1801049400.0,'JobDecided','{"job":{"estimate":1000000000000.0,"stratum":""},"reports":[{"result_id":25,"host":[1,4,"1"],"owner":1,"run_time":110.00000000000001,"speed":3000000000.0},{"result_id":26,"host":[2,4,"1"],"owner":2,"run_time":110.00000000000001,"speed":4000000000.0}],"quorum":2,"checked":[]}');
INSERT INTO "ledger_event" VALUES(3,4,1801049400.0,'JobDecided','{"job":{"estimate":1000000000000.0,"stratum":""},"reports":[{"result_id":27,"host":[1,4,"1"],"owner":1,"run_time":110.00000000000001,"speed":3000000000.0},{"result_id":28,"host":[2,4,"1"],"owner":2,"run_time":110.00000000000001,"speed":4000000000.0}],"quorum":2,"checked":[]}');
CREATE TABLE ledger_record (
    app_id INTEGER NOT NULL,
    host_id INTEGER NOT NULL,
    app_version_id INTEGER NOT NULL,
    usage TEXT NOT NULL,
    state TEXT DEFAULT '{}' NOT NULL,
    PRIMARY KEY (app_id, host_id, app_version_id, usage)
) STRICT;
INSERT INTO "ledger_record" VALUES(3,0,0,'','{"unit":2.3148148148148147e-12,"difference":0.15,"mean_size":0.2,"pairs":0,"own":{"paid":0.0,"value":0.0,"count":0.0},"partner":{"paid":128.89121234160658,"value":128.904090657822,"count":6.0},"length":{"paid":0.0,"value":0.0,"count":0.0},"sizes":{"paid":120.48832265839381,"value":122.33172543801285,"count":3.0},"factors":{"paid":122.31620061936913,"value":122.33172543801285,"count":3.0},"detector":{"up":0.0,"down":0.0,"shift":0.0,"left":0},"constant":0.0,"constants":{}}');
INSERT INTO "ledger_record" VALUES(3,0,4,'1','{"effect":-1.0219656480504469,"votes":0.912485241276622,"spread":0.3055290661361802}');
INSERT INTO "ledger_record" VALUES(3,1,4,'1','{"scale":3000000000.0,"samples":3,"effect":-0.07962362561523269,"variance":0.6219040935107288,"noise":1.0,"bank":0.2777777777777778,"debt":0.0,"trusted":3.0,"jobs":3,"refused":0,"earned":6.947160880338795,"escrow":6.947160880338795,"escrow_count":3,"stake":2.3172956097850426}');
INSERT INTO "ledger_record" VALUES(3,2,4,'1','{"scale":4000000000.0,"samples":2,"effect":0.14968396009592597,"variance":0.6327715576102512,"noise":1.0,"bank":0.2777777777777778,"debt":0.0,"trusted":3.0,"jobs":3,"refused":0,"earned":6.928981748894648,"escrow":6.928981748894648,"escrow_count":3,"stake":2.3130871065830347}');
CREATE TABLE mail (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    create_time REAL DEFAULT 0 NOT NULL,
    recipient TEXT DEFAULT '' NOT NULL,
    subject TEXT DEFAULT '' NOT NULL,
    body TEXT DEFAULT '' NOT NULL,
    attempts INTEGER DEFAULT 0 NOT NULL,
    next_time REAL DEFAULT 0 NOT NULL,
    sent_time REAL,
    error TEXT DEFAULT '' NOT NULL
) STRICT;
INSERT INTO "mail" VALUES(1,1801913400.0,'ada@example.org','Hello','It works.',0,1801913400.0,NULL,'');
CREATE TABLE meta (
    key TEXT NOT NULL PRIMARY KEY,
    value TEXT DEFAULT '' NOT NULL
) STRICT;
INSERT INTO "meta" VALUES('transfer_entry','21');
INSERT INTO "meta" VALUES('app_credit_entry','21');
INSERT INTO "meta" VALUES('credit_day_entry','21');
CREATE TABLE milestone (
    owner TEXT NOT NULL,
    owner_id INTEGER NOT NULL,
    credit INTEGER NOT NULL,
    time REAL DEFAULT 0 NOT NULL,
    PRIMARY KEY (owner, owner_id, credit)
) STRICT;
INSERT INTO "milestone" VALUES('user',1,0,1800007200.0);
INSERT INTO "milestone" VALUES('user',2,0,1800007200.0);
INSERT INTO "milestone" VALUES('user',3,0,1800010800.0);
CREATE TABLE msg_from_host (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    host_id INTEGER DEFAULT 0 NOT NULL,
    result_name TEXT DEFAULT '' NOT NULL,
    variety TEXT DEFAULT '' NOT NULL,
    time INTEGER DEFAULT 0 NOT NULL,
    text TEXT DEFAULT '' NOT NULL,
    digest TEXT DEFAULT '' NOT NULL,
    receive_time REAL DEFAULT 0 NOT NULL,
    handled INTEGER DEFAULT 0 NOT NULL,
    UNIQUE (host_id, result_name, time, digest)
) STRICT;
INSERT INTO "msg_from_host" VALUES(1,1,'search_1_0_0','trickle_credit',1800003600,'<runtime>60</runtime>','90674b92e2378467bd51512564fbcbd0',1800003600.0,1);
CREATE TABLE msg_to_host (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    host_id INTEGER DEFAULT 0 NOT NULL,
    result_name TEXT DEFAULT '' NOT NULL,
    text TEXT DEFAULT '' NOT NULL,
    create_time REAL DEFAULT 0 NOT NULL,
    sent_time REAL
) STRICT;
INSERT INTO "msg_to_host" VALUES(1,1,'','<x/>',1801913400.0,NULL);
CREATE TABLE news (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    title TEXT DEFAULT '' NOT NULL,
    text TEXT DEFAULT '' NOT NULL,
    time REAL DEFAULT 0 NOT NULL
) STRICT;
INSERT INTO "news" VALUES(1,'It began','With a *small* job.',1801913400.0);
CREATE TABLE one_time_code (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    user_id INTEGER DEFAULT 0 NOT NULL,
    purpose TEXT DEFAULT '' NOT NULL,
    code_hash TEXT DEFAULT '' NOT NULL UNIQUE,
    payload TEXT DEFAULT '' NOT NULL,
    create_time REAL DEFAULT 0 NOT NULL,
    expire_time REAL,
    used_time REAL
) STRICT;
INSERT INTO "one_time_code" VALUES(1,2,'recovery','59ae6da0183531c8f8b7a9769f39969a81cc0d3cf4a044a47fef540bf1809b9e','',1801913400.0,NULL,NULL);
CREATE TABLE profile (
    user_id INTEGER NOT NULL PRIMARY KEY,
    text TEXT DEFAULT '' NOT NULL,
    picture BLOB,
    searchable INTEGER DEFAULT 0 NOT NULL,
    time REAL DEFAULT 0 NOT NULL
) STRICT;
INSERT INTO "profile" VALUES(1,'I compute.',X'89504E47',1,1801913400.0);
CREATE TABLE project_sample (
    time REAL NOT NULL PRIMARY KEY,
    figures TEXT DEFAULT '{}' NOT NULL
) STRICT;
INSERT INTO "project_sample" VALUES(1801913400.0,'{"users":3.0}');
CREATE TABLE received_file (
    host_id INTEGER NOT NULL,
    file_name TEXT NOT NULL,
    PRIMARY KEY (host_id, file_name)
) STRICT;
INSERT INTO "received_file" VALUES(1,'search_eb2955b56cc4994434238ad0c04632b4.sh');
INSERT INTO "received_file" VALUES(2,'search_eb2955b56cc4994434238ad0c04632b4.sh');
INSERT INTO "received_file" VALUES(3,'search_eb2955b56cc4994434238ad0c04632b4.sh');
INSERT INTO "received_file" VALUES(1,'survey_d23bddda43e2ad10a8081b30db701dac.sh');
INSERT INTO "received_file" VALUES(2,'survey_d23bddda43e2ad10a8081b30db701dac.sh');
INSERT INTO "received_file" VALUES(1,'keeper_cbb10af7f398a86e3751da7b7ff9df34.sh');
INSERT INTO "received_file" VALUES(1,'kept_2c78e7216b85903d179400aafe201993');
CREATE TABLE result (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    name TEXT DEFAULT '' NOT NULL UNIQUE,
    workunit_id INTEGER DEFAULT 0 NOT NULL,
    app_id INTEGER DEFAULT 0 NOT NULL,
    priority INTEGER DEFAULT 0 NOT NULL,
    turn REAL DEFAULT 0 NOT NULL,
    server_state INTEGER DEFAULT 2 NOT NULL,
    outcome INTEGER DEFAULT 0 NOT NULL,
    client_state INTEGER DEFAULT 0 NOT NULL,
    validate_state INTEGER DEFAULT 0 NOT NULL,
    file_delete_state INTEGER DEFAULT 0 NOT NULL,
    host_id INTEGER,
    user_id INTEGER,
    app_version_id INTEGER,
    create_time REAL DEFAULT 0 NOT NULL,
    sent_time REAL,
    report_deadline REAL,
    received_time REAL,
    cpu_time REAL DEFAULT 0 NOT NULL,
    elapsed_time REAL DEFAULT 0 NOT NULL,
    exit_status INTEGER DEFAULT 0 NOT NULL,
    claimed_credit REAL DEFAULT 0 NOT NULL,
    granted_credit REAL DEFAULT 0 NOT NULL,
    peak_flops REAL DEFAULT 0 NOT NULL,
    fpops_counted REAL DEFAULT 0 NOT NULL,
    intops_counted REAL DEFAULT 0 NOT NULL,
    outlier INTEGER DEFAULT 0 NOT NULL,
    trickle_seconds REAL DEFAULT 0 NOT NULL,
    told_remaining REAL,
    told_time REAL
, avg_ncpus REAL DEFAULT 0 NOT NULL, checks INTEGER DEFAULT 0 NOT NULL) STRICT;
INSERT INTO "result" VALUES(1,'search_1_0_0',1,1,0,2000.0,5,1,5,1,0,1,1,1,1800000000.0,1800000000.0,1800432000.0,1800007200.0,100.0,1.10000000000000014216e+02,0,0.763888888888889,1.06095679012345711633e+00,3000000000.0,0.0,0.0,0,60.0,NULL,NULL,1.0,0);
INSERT INTO "result" VALUES(2,'search_1_0_1',1,1,0,2000.0,5,1,5,2,2,2,2,1,1800000000.0,1800000000.0,1800432000.0,1800007200.0,100.0,1.10000000000000014216e+02,0,0.0,0.0,4000000000.0,0.0,0.0,0,0.0,NULL,NULL,1.0,0);
INSERT INTO "result" VALUES(3,'search_1_1_0',2,1,0,4000.0,5,1,5,1,0,1,1,1,1800000000.0,1800000000.0,1800432000.0,1800007200.0,100.0,1.10000000000000014216e+02,0,0.763888888888889,4.50498575498575581921e-01,3000000000.0,0.0,0.0,0,0.0,NULL,NULL,1.0,0);
INSERT INTO "result" VALUES(4,'search_1_1_1',2,1,0,4000.0,5,1,5,1,2,2,2,1,1800000000.0,1800000000.0,1800432000.0,1800007200.0,100.0,1.10000000000000014216e+02,0,1.01851851851851860075e+00,9.00997150997151163842e-01,4000000000.0,0.0,0.0,0,0.0,NULL,NULL,1.0,0);
INSERT INTO "result" VALUES(5,'search_1_2_0',3,1,0,6000.0,5,1,5,1,0,1,1,1,1800000000.0,1800000000.0,1800432000.0,1800007200.0,100.0,1.10000000000000014216e+02,0,0.763888888888889,9.00997150997151163842e-01,3000000000.0,0.0,0.0,0,0.0,NULL,NULL,1.0,0);
INSERT INTO "result" VALUES(6,'search_1_2_1',3,1,0,6000.0,5,1,5,1,2,2,2,1,1800000000.0,1800000000.0,1800432000.0,1800007200.0,100.0,1.10000000000000014216e+02,0,1.01851851851851860075e+00,9.00997150997151163842e-01,4000000000.0,0.0,0.0,0,0.0,NULL,NULL,1.0,0);
INSERT INTO "result" VALUES(7,'search_1_0_2',1,1,1,2000.0,5,1,5,1,2,3,3,1,1800007200.0,1800007200.0,1800439200.0,1800010800.0,100.0,1.10000000000000014216e+02,0,1.27314814814814836196e+00,1.06095679012345711633e+00,5000000000.0,0.0,0.0,0,0.0,NULL,NULL,1.0,0);
INSERT INTO "result" VALUES(8,'fragile_2_0_0',4,2,0,8000.0,5,3,3,2,1,1,1,2,1800010800.0,1800010800.0,1800442800.0,1800010800.0,0.0,0.0,1,0.0,0.0,3000000000.0,0.0,0.0,0,0.0,NULL,NULL,1.0,0);
INSERT INTO "result" VALUES(9,'fragile_2_0_1',4,2,0,8000.0,5,5,0,0,0,NULL,NULL,NULL,1800010800.0,NULL,NULL,NULL,0.0,0.0,0,0.0,0.0,0.0,0.0,0.0,0,0.0,NULL,NULL,0.0,0);
INSERT INTO "result" VALUES(10,'fragile_2_0_2',4,2,1,8000.0,5,3,3,2,1,2,2,2,1800010800.0,1800010800.0,1800442800.0,1800010800.0,0.0,0.0,1,0.0,0.0,4000000000.0,0.0,0.0,0,0.0,NULL,NULL,1.0,0);
INSERT INTO "result" VALUES(11,'fragile_2_0_3',4,2,1,8000.0,5,3,3,2,1,3,3,2,1800010800.0,1800010800.0,1800442800.0,1800010800.0,0.0,0.0,1,0.0,0.0,5000000000.0,0.0,0.0,0,0.0,NULL,NULL,1.0,0);
INSERT INTO "result" VALUES(12,'fragile_3_0_0',5,2,0,10000.0,5,6,5,2,0,1,1,2,1800010800.0,1800010800.0,1800442800.0,1800010800.0,0.0,0.0,0,0.0,0.0,3000000000.0,0.0,0.0,0,0.0,NULL,NULL,1.0,0);
INSERT INTO "result" VALUES(13,'fragile_3_0_1',5,2,0,10000.0,5,4,0,0,0,2,2,2,1800010800.0,1800010800.0,1800442800.0,NULL,0.0,0.0,0,0.0,0.0,4000000000.0,0.0,0.0,0,0.0,NULL,NULL,1.0,0);
INSERT INTO "result" VALUES(14,'fragile_3_0_2',5,2,1,10000.0,5,1,5,4,0,3,3,2,1800529200.0,1800529200.0,1800961200.0,1800529200.0,0.0,0.0,0,0.0,0.0,5000000000.0,0.0,0.0,0,0.0,NULL,NULL,1.0,0);
INSERT INTO "result" VALUES(15,'fragile_3_0_3',5,2,1,10000.0,2,0,0,0,0,NULL,NULL,NULL,1800529200.0,NULL,NULL,NULL,0.0,0.0,0,0.0,0.0,0.0,0.0,0.0,0,0.0,NULL,NULL,0.0,0);
INSERT INTO "result" VALUES(16,'fragile_4_0_0',6,2,0,12000.0,5,5,0,0,0,NULL,NULL,NULL,1800529200.0,NULL,NULL,NULL,0.0,0.0,0,0.0,0.0,0.0,0.0,0.0,0,0.0,NULL,NULL,0.0,0);
INSERT INTO "result" VALUES(17,'fragile_4_0_1',6,2,0,12000.0,5,5,0,0,0,NULL,NULL,NULL,1800529200.0,NULL,NULL,NULL,0.0,0.0,0,0.0,0.0,0.0,0.0,0.0,0,0.0,NULL,NULL,0.0,0);
INSERT INTO "result" VALUES(18,'fragile_4_1_0',7,2,0,14000.0,5,5,0,0,0,NULL,NULL,NULL,1800529200.0,NULL,NULL,NULL,0.0,0.0,0,0.0,0.0,0.0,0.0,0.0,0,0.0,NULL,NULL,0.0,0);
INSERT INTO "result" VALUES(19,'fragile_4_1_1',7,2,0,14000.0,5,5,0,0,0,NULL,NULL,NULL,1800529200.0,NULL,NULL,NULL,0.0,0.0,0,0.0,0.0,0.0,0.0,0.0,0,0.0,NULL,NULL,0.0,0);
INSERT INTO "result" VALUES(20,'search_5_0_0',8,1,0,12000.0,5,1,5,5,2,2,2,3,1800529200.0,1800529200.0,1800961200.0,1801047600.0,100.0,1.10000000000000014216e+02,0,0.0,0.0,4000000000.0,0.0,0.0,0,0.0,NULL,NULL,1.0,0);
INSERT INTO "result" VALUES(21,'search_5_0_1',8,1,0,12000.0,5,1,5,1,2,3,3,3,1800529200.0,1801047600.0,1801479600.0,1801047600.0,0.0,0.0,0,2.3148148148148148806e+00,2.3148148148148148806e+00,5000000000.0,0.0,0.0,0,0.0,NULL,NULL,1.0,0);
INSERT INTO "result" VALUES(22,'search_5_0_2',8,1,1,12000.0,5,1,5,1,2,1,1,3,1801047600.0,1801047600.0,1801479600.0,1801047600.0,0.0,0.0,0,2.3148148148148148806e+00,2.3148148148148148806e+00,3000000000.0,0.0,0.0,0,0.0,NULL,NULL,1.0,0);
INSERT INTO "result" VALUES(23,'survey_6_0_0',9,3,0,14000.0,5,1,5,1,0,1,1,4,1801047600.0,1801047600.0,1801479600.0,1801048500.0,100.0,1.10000000000000014216e+02,0,2.31241201005368779419e+00,2.31241201005368779419e+00,3000000000.0,0.0,0.0,0,0.0,NULL,NULL,1.0,0);
INSERT INTO "result" VALUES(24,'survey_6_0_1',9,3,0,14000.0,5,1,5,1,0,2,2,4,1801047600.0,1801048500.0,1801480500.0,1801049400.0,100.0,1.10000000000000014216e+02,0,2.31240841307409317195e+00,2.31240841307409317195e+00,4000000000.0,0.0,0.0,0,0.0,NULL,NULL,1.0,0);
INSERT INTO "result" VALUES(25,'survey_6_1_0',10,3,0,16000.0,5,1,5,1,0,1,1,4,1801047600.0,1801047600.0,1801479600.0,1801048500.0,100.0,1.10000000000000014216e+02,0,2.32217920951639689164e+00,2.32217920951639689164e+00,3000000000.0,0.0,0.0,0,0.0,NULL,NULL,1.0,0);
INSERT INTO "result" VALUES(26,'survey_6_1_1',10,3,0,16000.0,5,1,5,1,0,2,2,4,1801047600.0,1801048500.0,1801480500.0,1801049400.0,100.0,1.10000000000000014216e+02,0,2.31376580009197629905e+00,2.31376580009197629905e+00,4000000000.0,0.0,0.0,0,0.0,NULL,NULL,1.0,0);
INSERT INTO "result" VALUES(27,'survey_6_2_0',11,3,0,18000.0,5,1,5,1,0,1,1,4,1801047600.0,1801047600.0,1801479600.0,1801048500.0,100.0,1.10000000000000014216e+02,0,2.31256966076871,2.31256966076871,3000000000.0,0.0,0.0,0,0.0,NULL,NULL,1.0,0);
INSERT INTO "result" VALUES(28,'survey_6_2_1',11,3,0,18000.0,5,1,5,1,0,2,2,4,1801047600.0,1801048500.0,1801480500.0,1801049400.0,100.0,1.10000000000000014216e+02,0,2.30280753572857888045e+00,2.30280753572857888045e+00,4000000000.0,0.0,0.0,0,0.0,NULL,NULL,1.0,0);
INSERT INTO "result" VALUES(29,'keeper_7_0_0',12,4,0,19000.0,5,1,5,1,0,1,1,5,1801049400.0,1801049400.0,1801654200.0,1801049400.0,0.0,0.0,0,2.3148148148148148806e+00,2.3148148148148148806e+00,3000000000.0,0.0,0.0,0,0.0,NULL,NULL,1.0,0);
INSERT INTO "result" VALUES(30,'keeper_8_0_0',13,4,0,20000.0,5,1,5,1,0,1,1,5,1801049400.0,1801999800.0,1802604600.0,1801999800.0,0.0,0.0,0,2.3148148148148148806e+00,2.3148148148148148806e+00,3000000000.0,0.0,0.0,0,0.0,NULL,NULL,1.0,0);
INSERT INTO "result" VALUES(31,'open_9_0_0',14,5,0,21000.0,5,1,5,4,0,1,1,6,1801999800.0,1801999800.0,1802431800.0,1801999800.0,0.0,0.0,0,0.0,0.0,3000000000.0,0.0,0.0,0,0.0,NULL,NULL,1.0,0);
INSERT INTO "result" VALUES(32,'open_9_0_1',14,5,0,21000.0,5,1,5,4,0,2,2,6,1801999800.0,1801999800.0,1802431800.0,1801999800.0,0.0,0.0,0,0.0,0.0,4000000000.0,0.0,0.0,0,0.0,NULL,NULL,1.0,0);
INSERT INTO "result" VALUES(33,'open_9_1_0',15,5,0,23000.0,4,0,0,0,0,1,1,6,1801999800.0,1801999800.0,1802431800.0,NULL,0.0,0.0,0,0.0,0.0,3000000000.0,0.0,0.0,0,0.0,NULL,NULL,1.0,0);
INSERT INTO "result" VALUES(34,'open_9_1_1',15,5,0,23000.0,4,0,0,0,0,2,2,6,1801999800.0,1801999800.0,1802431800.0,NULL,0.0,0.0,0,0.0,0.0,4000000000.0,0.0,0.0,0,0.0,NULL,NULL,1.0,0);
INSERT INTO "result" VALUES(35,'open_9_0_2',14,5,1,21000.0,2,0,0,0,0,NULL,NULL,NULL,1801999800.0,NULL,NULL,NULL,0.0,0.0,0,0.0,0.0,0.0,0.0,0.0,0,0.0,NULL,NULL,0.0,0);
INSERT INTO "result" VALUES(36,'open_10_0_0',16,5,0,25000.0,2,0,0,0,0,NULL,NULL,NULL,1801999800.0,NULL,NULL,NULL,0.0,0.0,0,0.0,0.0,0.0,0.0,0.0,0,0.0,NULL,NULL,0.0,0);
INSERT INTO "result" VALUES(37,'open_10_0_1',16,5,0,25000.0,2,0,0,0,0,NULL,NULL,NULL,1801999800.0,NULL,NULL,NULL,0.0,0.0,0,0.0,0.0,0.0,0.0,0.0,0,0.0,NULL,NULL,0.0,0);
INSERT INTO "result" VALUES(38,'open_10_1_0',17,5,0,27000.0,2,0,0,0,0,NULL,NULL,NULL,1801999800.0,NULL,NULL,NULL,0.0,0.0,0,0.0,0.0,0.0,0.0,0.0,0,0.0,NULL,NULL,0.0,0);
INSERT INTO "result" VALUES(39,'open_10_1_1',17,5,0,27000.0,2,0,0,0,0,NULL,NULL,NULL,1801999800.0,NULL,NULL,NULL,0.0,0.0,0,0.0,0.0,0.0,0.0,0.0,0,0.0,NULL,NULL,0.0,0);
CREATE TABLE result_text (
    result_id INTEGER NOT NULL PRIMARY KEY,
    stderr BLOB,
    report TEXT DEFAULT '{}' NOT NULL
) STRICT;
INSERT INTO "result_text" VALUES(1,X'480DCB48CDC9C90700062C0215','{"client_message":"","client_version":"7.20.5","reasons":[],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}');
INSERT INTO "result_text" VALUES(2,X'480DCB48CDC9C90700062C0215','{"client_message":"","client_version":"7.20.5","reasons":[{"code":"invalid","text":"search_1_0_1 disagrees with the canonical result search_1_0_0: out: 70000 and 3 bytes, different from byte 0 on","sentence":"{result} disagrees with the canonical result {canonical}: {difference}","values":{"result":"search_1_0_1","canonical":"search_1_0_0","difference":{"text":"out: 70000 and 3 bytes, different from byte 0 on","sentence":"{part0}","values":{"part0":{"text":"out: 70000 and 3 bytes, different from byte 0 on","sentence":"{file}: {first} and {second} bytes, different from byte {offset} on","values":{"file":"out","first":70000,"second":3,"offset":0}}}}}}],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}');
INSERT INTO "result_text" VALUES(3,X'480DCB48CDC9C90700062C0215','{"client_message":"","client_version":"7.20.5","reasons":[],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}');
INSERT INTO "result_text" VALUES(4,X'480DCB48CDC9C90700062C0215','{"client_message":"","client_version":"7.20.5","reasons":[],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}');
INSERT INTO "result_text" VALUES(5,X'480DCB48CDC9C90700062C0215','{"client_message":"","client_version":"7.20.5","reasons":[],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}');
INSERT INTO "result_text" VALUES(6,X'480DCB48CDC9C90700062C0215','{"client_message":"","client_version":"7.20.5","reasons":[],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}');
INSERT INTO "result_text" VALUES(7,X'480DCB48CDC9C90700062C0215','{"client_message":"","client_version":"7.20.5","reasons":[],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}');
INSERT INTO "result_text" VALUES(8,X'480DCB2C51482ACACF4E05000D760311','{"client_message":"","client_version":"7.20.5","reasons":[{"code":"exit_status","text":"The program ended with status 1.","sentence":"The program ended with status {status}.","values":{"status":1}},{"code":"elapsed_time_too_long","text":"The result claims 110.00000000000001 s of elapsed time, but it was sent only 0.0 s ago.","sentence":"The result claims {claimed} s of elapsed time, but it was sent only {possible} s ago.","values":{"claimed":110.00000000000001,"possible":0.0}}],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}');
INSERT INTO "result_text" VALUES(10,X'480DCB2C51482ACACF4E05000D760311','{"client_message":"","client_version":"7.20.5","reasons":[{"code":"exit_status","text":"The program ended with status 1.","sentence":"The program ended with status {status}.","values":{"status":1}},{"code":"elapsed_time_too_long","text":"The result claims 110.00000000000001 s of elapsed time, but it was sent only 0.0 s ago.","sentence":"The result claims {claimed} s of elapsed time, but it was sent only {possible} s ago.","values":{"claimed":110.00000000000001,"possible":0.0}}],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}');
INSERT INTO "result_text" VALUES(11,X'480DCB2C51482ACACF4E05000D760311','{"client_message":"","client_version":"7.20.5","reasons":[{"code":"exit_status","text":"The program ended with status 1.","sentence":"The program ended with status {status}.","values":{"status":1}},{"code":"elapsed_time_too_long","text":"The result claims 110.00000000000001 s of elapsed time, but it was sent only 0.0 s ago.","sentence":"The result claims {claimed} s of elapsed time, but it was sent only {possible} s ago.","values":{"claimed":110.00000000000001,"possible":0.0}}],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}');
INSERT INTO "result_text" VALUES(12,X'480DCB48CDC9C90700062C0215','{"client_message":"","client_version":"7.20.5","reasons":[{"code":"elapsed_time_too_long","text":"The result claims 110.00000000000001 s of elapsed time, but it was sent only 0.0 s ago.","sentence":"The result claims {claimed} s of elapsed time, but it was sent only {possible} s ago.","values":{"claimed":110.00000000000001,"possible":0.0}},{"code":"unusable","text":"fragile_3_0_0 is not usable: out: gzip cannot be decompressed: Error -3 while decompressing data: unknown compression method","sentence":"{result} is not usable: {problem}","values":{"result":"fragile_3_0_0","problem":{"text":"out: gzip cannot be decompressed: Error -3 while decompressing data: unknown compression method","sentence":"{file}: {problem}","values":{"file":"out","problem":{"text":"gzip cannot be decompressed: Error -3 while decompressing data: unknown compression method","sentence":"{what} cannot be decompressed: {error}","values":{"what":"gzip","error":"Error -3 while decompressing data: unknown compression method"}}}}}}],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}');
INSERT INTO "result_text" VALUES(14,X'480DCB48CDC9C90700062C0215','{"client_message":"","client_version":"7.20.5","reasons":[{"code":"elapsed_time_too_long","text":"The result claims 110.00000000000001 s of elapsed time, but it was sent only 0.0 s ago.","sentence":"The result claims {claimed} s of elapsed time, but it was sent only {possible} s ago.","values":{"claimed":110.00000000000001,"possible":0.0}}],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}');
INSERT INTO "result_text" VALUES(20,X'480DCB48CDC9C90700062C0215','{"client_message":"","client_version":"7.20.5","reasons":[],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}');
INSERT INTO "result_text" VALUES(21,X'480DCB48CDC9C90700062C0215','{"client_message":"","client_version":"7.20.5","reasons":[{"code":"elapsed_time_too_long","text":"The result claims 110.00000000000001 s of elapsed time, but it was sent only 0.0 s ago.","sentence":"The result claims {claimed} s of elapsed time, but it was sent only {possible} s ago.","values":{"claimed":110.00000000000001,"possible":0.0}}],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}');
INSERT INTO "result_text" VALUES(22,X'480DCB48CDC9C90700062C0215','{"client_message":"","client_version":"7.20.5","reasons":[{"code":"elapsed_time_too_long","text":"The result claims 110.00000000000001 s of elapsed time, but it was sent only 0.0 s ago.","sentence":"The result claims {claimed} s of elapsed time, but it was sent only {possible} s ago.","values":{"claimed":110.00000000000001,"possible":0.0}}],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}');
INSERT INTO "result_text" VALUES(23,X'480DCB48CDC9C90700062C0215','{"client_message":"","client_version":"7.20.5","reasons":[],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}');
INSERT INTO "result_text" VALUES(24,X'480DCB48CDC9C90700062C0215','{"client_message":"","client_version":"7.20.5","reasons":[],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}');
INSERT INTO "result_text" VALUES(25,X'480DCB48CDC9C90700062C0215','{"client_message":"","client_version":"7.20.5","reasons":[],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}');
INSERT INTO "result_text" VALUES(26,X'480DCB48CDC9C90700062C0215','{"client_message":"","client_version":"7.20.5","reasons":[],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}');
INSERT INTO "result_text" VALUES(27,X'480DCB48CDC9C90700062C0215','{"client_message":"","client_version":"7.20.5","reasons":[],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}');
INSERT INTO "result_text" VALUES(28,X'480DCB48CDC9C90700062C0215','{"client_message":"","client_version":"7.20.5","reasons":[],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}');
INSERT INTO "result_text" VALUES(29,X'480DCB48CDC9C90700062C0215','{"client_message":"","client_version":"7.20.5","reasons":[{"code":"elapsed_time_too_long","text":"The result claims 110.00000000000001 s of elapsed time, but it was sent only 0.0 s ago.","sentence":"The result claims {claimed} s of elapsed time, but it was sent only {possible} s ago.","values":{"claimed":110.00000000000001,"possible":0.0}}],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}');
INSERT INTO "result_text" VALUES(30,X'480DCB48CDC9C90700062C0215','{"client_message":"","client_version":"7.20.5","reasons":[{"code":"elapsed_time_too_long","text":"The result claims 110.00000000000001 s of elapsed time, but it was sent only 0.0 s ago.","sentence":"The result claims {claimed} s of elapsed time, but it was sent only {possible} s ago.","values":{"claimed":110.00000000000001,"possible":0.0}}],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}');
INSERT INTO "result_text" VALUES(31,X'480DCB48CDC9C90700062C0215','{"client_message":"","client_version":"7.20.5","reasons":[{"code":"elapsed_time_too_long","text":"The result claims 110.00000000000001 s of elapsed time, but it was sent only 0.0 s ago.","sentence":"The result claims {claimed} s of elapsed time, but it was sent only {possible} s ago.","values":{"claimed":110.00000000000001,"possible":0.0}}],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}');
INSERT INTO "result_text" VALUES(32,X'480DCB48CDC9C90700062C0215','{"client_message":"","client_version":"7.20.5","reasons":[{"code":"elapsed_time_too_long","text":"The result claims 110.00000000000001 s of elapsed time, but it was sent only 0.0 s ago.","sentence":"The result claims {claimed} s of elapsed time, but it was sent only {possible} s ago.","values":{"claimed":110.00000000000001,"possible":0.0}}],"peak_working_set_size":0.0,"peak_disk_usage":0.0,"fpops_cumulative":0.0,"fpops_per_cpu_sec":0.0,"intops_cumulative":0.0,"intops_per_cpu_sec":0.0}');
CREATE TABLE server_process (
    process_key TEXT NOT NULL PRIMARY KEY,
    host TEXT DEFAULT '' NOT NULL,
    pid INTEGER DEFAULT 0 NOT NULL,
    roles TEXT DEFAULT '' NOT NULL,
    version TEXT DEFAULT '' NOT NULL,
    started REAL DEFAULT 0 NOT NULL,
    beat_time REAL DEFAULT 0 NOT NULL,
    ended INTEGER DEFAULT 0 NOT NULL,
    daemons TEXT DEFAULT '[]' NOT NULL
) STRICT;
INSERT INTO "server_process" VALUES('1','alpha',1,'web','0.1.0',1801913400.0,1801913400.0,0,'[]');
CREATE TABLE team (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    name TEXT DEFAULT '' NOT NULL,
    name_lc TEXT DEFAULT '' NOT NULL UNIQUE,
    founder_id INTEGER,
    create_time REAL DEFAULT 0 NOT NULL,
    description TEXT DEFAULT '' NOT NULL,
    url TEXT DEFAULT '' NOT NULL,
    country TEXT DEFAULT '' NOT NULL,
    joinable INTEGER DEFAULT 1 NOT NULL,
    total_credit REAL DEFAULT 0 NOT NULL,
    expavg_credit REAL DEFAULT 0 NOT NULL,
    expavg_time REAL DEFAULT 0 NOT NULL
, type INTEGER DEFAULT 1 NOT NULL, name_html TEXT DEFAULT '' NOT NULL) STRICT;
INSERT INTO "team" VALUES(1,'Team','team',1,1801913400.0,'We.','','',1,2.3148148148148148806e+00,2.18232258648364096931e-01,1801999800.0,6,'<b>Team</b>');
CREATE TABLE team_message (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    team_id INTEGER DEFAULT 0 NOT NULL,
    user_id INTEGER DEFAULT 0 NOT NULL,
    title TEXT DEFAULT '' NOT NULL,
    text TEXT DEFAULT '' NOT NULL,
    time REAL DEFAULT 0 NOT NULL
) STRICT;
INSERT INTO "team_message" VALUES(1,1,1,'Welcome','All of you.',1801913400.0);
CREATE TABLE told_account (
    token_id INTEGER NOT NULL,
    account TEXT NOT NULL,
    user_id INTEGER NOT NULL,
    weak_authenticator TEXT DEFAULT '' NOT NULL,
    enrol_time REAL DEFAULT 0 NOT NULL,
    PRIMARY KEY (token_id, account),
    UNIQUE (token_id, user_id)
) STRICT;
INSERT INTO "told_account" VALUES(1,'c92e4f87ec484d8725859e410513dd80',1,'1_5979a975b0eb29c35cf4e81fa12043c7',1801913400.0);
CREATE TABLE upload (
    name TEXT NOT NULL PRIMARY KEY,
    result_id INTEGER DEFAULT 0 NOT NULL,
    nbytes INTEGER DEFAULT 0 NOT NULL,
    md5 TEXT DEFAULT '' NOT NULL,
    gzipped INTEGER DEFAULT 0 NOT NULL,
    data BLOB,
    time REAL DEFAULT 0 NOT NULL
) STRICT;
INSERT INTO "upload" VALUES('search_1_0_0_0',1,70000,'bbe08e77a44b51de811b3d30272b9916',0,NULL,1800007200.0);
INSERT INTO "upload" VALUES('search_1_1_0_0',3,70000,'bbe08e77a44b51de811b3d30272b9916',0,NULL,1800007200.0);
INSERT INTO "upload" VALUES('search_1_2_0_0',5,70000,'bbe08e77a44b51de811b3d30272b9916',0,NULL,1800007200.0);
INSERT INTO "upload" VALUES('fragile_3_0_0_0',12,9,'05c6a03eb03934aaced5b6a346293664',0,X'1F8B2062726F6B656E',1800010800.0);
INSERT INTO "upload" VALUES('fragile_3_0_2_0',14,7,'c254bf0486a136bb7bcd15ec36dea6b7',0,X'312E3520322E35',1800529200.0);
INSERT INTO "upload" VALUES('survey_6_0_0_0',23,70000,'bbe08e77a44b51de811b3d30272b9916',0,NULL,1801048500.0);
INSERT INTO "upload" VALUES('survey_6_1_0_0',25,70000,'bbe08e77a44b51de811b3d30272b9916',0,NULL,1801048500.0);
INSERT INTO "upload" VALUES('survey_6_2_0_0',27,70000,'bbe08e77a44b51de811b3d30272b9916',0,NULL,1801048500.0);
INSERT INTO "upload" VALUES('survey_6_0_1_0',24,70000,'bbe08e77a44b51de811b3d30272b9916',0,NULL,1801049400.0);
INSERT INTO "upload" VALUES('survey_6_1_1_0',26,70000,'bbe08e77a44b51de811b3d30272b9916',0,NULL,1801049400.0);
INSERT INTO "upload" VALUES('survey_6_2_1_0',28,70000,'bbe08e77a44b51de811b3d30272b9916',0,NULL,1801049400.0);
INSERT INTO "upload" VALUES('keeper_7_0_0_0',29,6,'a363b8d13575101a0226e8d0d054f2e7',0,X'616E73776572',1801049400.0);
INSERT INTO "upload" VALUES('keeper_8_0_0_0',30,3,'f97c5d29941bfb1b2fdab0874906ab82',0,X'6F6E65',1801999800.0);
INSERT INTO "upload" VALUES('open_9_0_0_0',31,3,'f97c5d29941bfb1b2fdab0874906ab82',0,X'6F6E65',1801999800.0);
INSERT INTO "upload" VALUES('open_9_0_1_0',32,5,'795f3202b17cb6bc3d4b771d8c6c9eaf',0,X'6F74686572',1801999800.0);
CREATE TABLE user_account (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    name TEXT DEFAULT '' NOT NULL,
    email_addr TEXT DEFAULT '' NOT NULL UNIQUE,
    authenticator TEXT DEFAULT '' NOT NULL UNIQUE,
    weak_authenticator TEXT DEFAULT '' NOT NULL UNIQUE,
    passwd_hash TEXT DEFAULT '' NOT NULL,
    cross_project_id TEXT DEFAULT '' NOT NULL,
    create_time REAL DEFAULT 0 NOT NULL,
    team_id INTEGER,
    venue TEXT DEFAULT '' NOT NULL,
    country TEXT DEFAULT '' NOT NULL,
    url TEXT DEFAULT '' NOT NULL,
    global_prefs TEXT DEFAULT '' NOT NULL,
    global_prefs_time REAL DEFAULT 0 NOT NULL,
    project_prefs TEXT DEFAULT '' NOT NULL,
    show_hosts INTEGER DEFAULT 1 NOT NULL,
    role TEXT DEFAULT '' NOT NULL,
    blocked_reason TEXT DEFAULT '' NOT NULL,
    send_email INTEGER DEFAULT 1 NOT NULL,
    language TEXT DEFAULT '' NOT NULL,
    totp_secret TEXT DEFAULT '' NOT NULL,
    totp_step INTEGER DEFAULT 0 NOT NULL,
    session_epoch INTEGER DEFAULT 0 NOT NULL,
    erase_time REAL,
    erased_time REAL,
    total_credit REAL DEFAULT 0 NOT NULL,
    expavg_credit REAL DEFAULT 0 NOT NULL,
    expavg_time REAL DEFAULT 0 NOT NULL,
    email_verified_time REAL,
    team_messages INTEGER DEFAULT 1 NOT NULL
) STRICT;
INSERT INTO "user_account" VALUES(1,'Ada','ada@example.org','78acfb3441bd156ce7e878203653359f','1_5979a975b0eb29c35cf4e81fa12043c7','$argon2id$v=19$m=65536,t=3,p=4$QVARsyUkubNJAT/wwUAj1Q$+ZG+Q4hjLF4/zgm/2CWkGZKH+PsmpR4LLOVMZXLu9uk','f92e065030f823a0051dd7517636fe19',1800000000.0,1,'','','','',0.0,'',1,'','',1,'','',0,0,NULL,NULL,1.39867622316173800811e+01,5.29865698139954321987e-01,1801999800.0,1801913400.0,1);
INSERT INTO "user_account" VALUES(2,'Bob','bob@example.org','88de489338e14805aaa2256c7ee6655f','2_e555525209f930e81f80a3e5eaa8619a','$argon2id$v=19$m=65536,t=3,p=4$w3/miqAPVpJv6cQId0O8WA$ynMO+YCkAC74TjAItPezhgDzlcmrIZmGMS31otZtdEI','a1a6ab9d97ae77989d522b27d821d18d',1800000000.0,1,'','','','',0.0,'',1,'','',1,'','',0,0,NULL,NULL,6.41788894430591660977e+00,1.39861386356051581314e-01,1801999800.0,NULL,1);
INSERT INTO "user_account" VALUES(3,'Carol','carol@example.org','9d91ab4199dc1fc112155453571e14c1','3_fa813d78be603d2074bb57eafcd30114','$argon2id$v=19$m=65536,t=3,p=4$4im6TbiL4adCGdQkrbcqFg$Wm8v2Z+W10YbaIpF9GqRyqmUTL/AU+hdJw2dOx4WT2g','f548b39e1a683878572c73c01053a480',1800000000.0,NULL,'','','','',0.0,'',1,'','',1,'','',0,1,1801999800.0,NULL,3.37577160493827221898e+00,5.57172825447355274386e-02,1801999800.0,NULL,1);
CREATE TABLE webhook (
    batch_id INTEGER NOT NULL PRIMARY KEY,
    url TEXT NOT NULL,
    secret TEXT NOT NULL,
    told_seq INTEGER DEFAULT 0 NOT NULL,
    attempts INTEGER DEFAULT 0 NOT NULL,
    error TEXT DEFAULT '' NOT NULL,
    next_time REAL
) STRICT;
INSERT INTO "webhook" VALUES(8,'https://lab.example/hook','whsec_',0,0,'',1801913400.0);
CREATE TABLE workunit (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    name TEXT DEFAULT '' NOT NULL UNIQUE,
    app_id INTEGER DEFAULT 0 NOT NULL,
    batch_id INTEGER,
    label TEXT DEFAULT '' NOT NULL,
    create_time REAL DEFAULT 0 NOT NULL,
    priority INTEGER DEFAULT 0 NOT NULL,
    command_line TEXT DEFAULT '' NOT NULL,
    input_files TEXT DEFAULT '[]' NOT NULL,
    output_specs TEXT DEFAULT '[]' NOT NULL,
    rsc_fpops_est REAL DEFAULT 0 NOT NULL,
    rsc_fpops_bound REAL DEFAULT 0 NOT NULL,
    rsc_memory_bound REAL DEFAULT 0 NOT NULL,
    rsc_disk_bound REAL DEFAULT 0 NOT NULL,
    rsc_bandwidth_bound REAL DEFAULT 0 NOT NULL,
    delay_bound REAL DEFAULT 0 NOT NULL,
    min_quorum INTEGER DEFAULT 0 NOT NULL,
    target_nresults INTEGER DEFAULT 0 NOT NULL,
    max_error_results INTEGER DEFAULT 0 NOT NULL,
    max_total_results INTEGER DEFAULT 0 NOT NULL,
    max_success_results INTEGER DEFAULT 0 NOT NULL,
    need_validate INTEGER DEFAULT 0 NOT NULL,
    canonical_result_id INTEGER,
    canonical_credit REAL DEFAULT 0 NOT NULL,
    fixed_credit REAL DEFAULT 0 NOT NULL,
    transition_time REAL,
    error_mask INTEGER DEFAULT 0 NOT NULL,
    assimilate_state INTEGER DEFAULT 0 NOT NULL,
    file_delete_state INTEGER DEFAULT 0 NOT NULL,
    hr_class INTEGER DEFAULT 0 NOT NULL,
    app_version_id INTEGER,
    target_host_id INTEGER,
    target_user_id INTEGER,
    target_team_id INTEGER,
    size_class INTEGER DEFAULT -1 NOT NULL,
    turn REAL DEFAULT 0 NOT NULL,
    completed_seq INTEGER,
    completed_time REAL,
    handler_failures INTEGER DEFAULT 0 NOT NULL,
    retry_time REAL DEFAULT 0 NOT NULL,
    handler_problem TEXT DEFAULT '' NOT NULL
) STRICT;
INSERT INTO "workunit" VALUES(1,'search_1_0',1,1,'',1800000000.0,0,'','[]','[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]',1000000000000.0,100000000000000.0,500000000.0,1000000000.0,0.0,432000.0,2,3,2,10,6,0,1,1.06095679012345711633e+00,0.0,NULL,0,2,2,0,NULL,NULL,NULL,NULL,-1,2000.0,3,1800010800.0,0,0.0,'');
INSERT INTO "workunit" VALUES(2,'search_1_1',1,1,'',1800000000.0,0,'','[]','[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]',1000000000000.0,100000000000000.0,500000000.0,1000000000.0,0.0,432000.0,2,2,2,10,6,0,3,9.00997150997151163842e-01,0.0,NULL,0,2,2,0,NULL,NULL,NULL,NULL,-1,4000.0,1,1800007200.0,0,0.0,'');
INSERT INTO "workunit" VALUES(3,'search_1_2',1,1,'',1800000000.0,0,'','[]','[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]',1000000000000.0,100000000000000.0,500000000.0,1000000000.0,0.0,432000.0,2,2,2,10,6,0,5,9.00997150997151163842e-01,0.0,NULL,0,2,2,0,NULL,NULL,NULL,NULL,-1,6000.0,2,1800007200.0,0,0.0,'');
INSERT INTO "workunit" VALUES(4,'fragile_2_0',2,2,'',1800010800.0,0,'','[]','[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]',1000000000000.0,100000000000000.0,500000000.0,1000000000.0,0.0,432000.0,2,2,2,10,6,0,NULL,0.0,0.0,NULL,2,2,2,0,NULL,NULL,NULL,NULL,-1,8000.0,1,1800010800.0,0,0.0,'');
INSERT INTO "workunit" VALUES(5,'fragile_3_0',2,3,'',1800010800.0,0,'','[]','[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]',1000000000000.0,100000000000000.0,500000000.0,1000000000.0,0.0,432000.0,2,2,2,10,6,0,NULL,0.0,0.0,1802431800.0,0,0,0,0,NULL,NULL,NULL,NULL,-1,10000.0,NULL,NULL,0,0.0,'');
INSERT INTO "workunit" VALUES(6,'fragile_4_0',2,4,'',1800529200.0,0,'','[]','[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]',1000000000000.0,100000000000000.0,500000000.0,1000000000.0,0.0,432000.0,2,2,2,10,6,0,NULL,0.0,0.0,NULL,16,2,2,0,NULL,NULL,NULL,NULL,-1,12000.0,1,1800529200.0,0,0.0,'');
INSERT INTO "workunit" VALUES(7,'fragile_4_1',2,4,'',1800529200.0,0,'','[]','[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]',1000000000000.0,100000000000000.0,500000000.0,1000000000.0,0.0,432000.0,2,2,2,10,6,0,NULL,0.0,0.0,NULL,16,2,2,0,NULL,NULL,NULL,NULL,-1,14000.0,2,1800529200.0,0,0.0,'');
INSERT INTO "workunit" VALUES(8,'search_5_0',1,5,'',1800529200.0,0,'','[]','[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]',1000000000000.0,100000000000000.0,500000000.0,1000000000.0,0.0,432000.0,2,2,2,10,6,0,21,2.3148148148148148806e+00,0.0,NULL,0,2,2,0,NULL,NULL,NULL,NULL,-1,12000.0,1,1801047600.0,0,0.0,'');
INSERT INTO "workunit" VALUES(9,'survey_6_0',3,6,'',1801047600.0,0,'','[]','[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]',1000000000000.0,100000000000000.0,500000000.0,1000000000.0,0.0,432000.0,2,2,2,10,6,0,23,2.31241201005368779419e+00,0.0,1802086200.0,0,2,0,0,NULL,NULL,NULL,NULL,-1,14000.0,1,1801049400.0,0,0.0,'');
INSERT INTO "workunit" VALUES(10,'survey_6_1',3,6,'',1801047600.0,0,'','[]','[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]',1000000000000.0,100000000000000.0,500000000.0,1000000000.0,0.0,432000.0,2,2,2,10,6,0,25,2.32217920951639689164e+00,0.0,1802086200.0,0,2,0,0,NULL,NULL,NULL,NULL,-1,16000.0,2,1801049400.0,0,0.0,'');
INSERT INTO "workunit" VALUES(11,'survey_6_2',3,6,'',1801047600.0,0,'','[]','[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]',1000000000000.0,100000000000000.0,500000000.0,1000000000.0,0.0,432000.0,2,2,2,10,6,0,27,2.31256966076871,0.0,1802086200.0,0,2,0,0,NULL,NULL,NULL,NULL,-1,18000.0,3,1801049400.0,0,0.0,'');
INSERT INTO "workunit" VALUES(12,'keeper_7_0',4,7,'',1801049400.0,0,'','[{"name":"kept_2c78e7216b85903d179400aafe201993","open_name":"in","nbytes":5000,"md5":"a633e020972199bb8a244dc1c656a1fe","gzipped_nbytes":null,"sticky":true,"copy_file":true,"given_name":""}]','[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]',1000000000000.0,864000000000000.0,500000000.0,1000000000.0,0.0,604800.0,1,1,3,10,6,0,29,2.3148148148148148806e+00,0.0,NULL,0,2,2,0,NULL,NULL,NULL,NULL,-1,19000.0,1,1801049400.0,0,0.0,'');
INSERT INTO "workunit" VALUES(13,'keeper_8_0',4,8,'',1801049400.0,0,'','[{"name":"kept_2c78e7216b85903d179400aafe201993","open_name":"in","nbytes":5000,"md5":"a633e020972199bb8a244dc1c656a1fe","gzipped_nbytes":null,"sticky":true,"copy_file":true,"given_name":""}]','[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]',1000000000000.0,864000000000000.0,500000000.0,1000000000.0,0.0,604800.0,1,1,3,10,6,0,30,2.3148148148148148806e+00,0.0,NULL,0,2,2,0,NULL,NULL,NULL,NULL,-1,20000.0,1,1801999800.0,0,0.0,'');
INSERT INTO "workunit" VALUES(14,'open_9_0',5,9,'',1801999800.0,0,'','[]','[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]',1000000000000.0,100000000000000.0,500000000.0,1000000000.0,0.0,432000.0,2,3,2,10,6,0,NULL,0.0,0.0,1802431800.0,0,0,0,0,NULL,NULL,NULL,NULL,-1,21000.0,NULL,NULL,0,0.0,'');
INSERT INTO "workunit" VALUES(15,'open_9_1',5,9,'',1801999800.0,0,'','[]','[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]',1000000000000.0,100000000000000.0,500000000.0,1000000000.0,0.0,432000.0,2,2,2,10,6,0,NULL,0.0,0.0,1802431800.0,0,0,0,0,NULL,NULL,NULL,NULL,-1,23000.0,NULL,NULL,0,0.0,'');
INSERT INTO "workunit" VALUES(16,'open_10_0',5,10,'',1801999800.0,0,'','[]','[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]',1000000000000.0,100000000000000.0,500000000.0,1000000000.0,0.0,432000.0,2,2,2,10,6,0,NULL,0.0,0.0,1802431800.0,0,0,0,0,NULL,NULL,NULL,NULL,-1,25000.0,NULL,NULL,0,0.0,'');
INSERT INTO "workunit" VALUES(17,'open_10_1',5,10,'',1801999800.0,0,'','[]','[{"open_name":"out","max_nbytes":50000000,"gzip":false,"optional":false,"copy_file":true}]',1000000000000.0,100000000000000.0,500000000.0,1000000000.0,0.0,432000.0,2,2,2,10,6,0,NULL,0.0,0.0,1802431800.0,0,0,0,0,NULL,NULL,NULL,NULL,-1,27000.0,NULL,NULL,0,0.0,'');
CREATE INDEX api_reply_expired ON api_reply (expire_time);
CREATE INDEX app_credit_by_owner ON app_credit (owner, owner_id);
CREATE INDEX app_credit_by_recent ON app_credit (owner, app_id, expavg_credit);
CREATE INDEX app_credit_by_total ON app_credit (owner, app_id, total_credit);
CREATE INDEX audit_by_target ON audit_entry (target);
CREATE INDEX batch_to_archive ON batch (id) WHERE state = 4 AND archived = 0;
CREATE INDEX batch_unfinished ON batch (token_id) WHERE state IN (0, 1);
CREATE INDEX consent_by_user ON consent (user_id, kind, id);
CREATE INDEX contribution_by_host ON contribution_entry (host_id, id);
CREATE INDEX contribution_by_user ON contribution_entry (user_id, id);
CREATE INDEX credit_day_by_age ON credit_day (n_days, day);
CREATE INDEX credit_by_host ON credit_entry (host_id, time);
CREATE INDEX credit_by_result ON credit_entry (result_id);
CREATE INDEX credit_by_team ON credit_entry (team_id, time) WHERE team_id IS NOT NULL;
CREATE INDEX credit_by_user ON credit_entry (user_id, time);
CREATE UNIQUE INDEX credit_once ON credit_entry (result_id) WHERE kind = 'grant';
CREATE INDEX ended_session_expired ON ended_session (expire_time);
CREATE INDEX file_unused ON file (touched_time) WHERE refs <= 0;
CREATE INDEX host_by_cpid ON host (user_id, host_cpid);
CREATE INDEX host_by_credit ON host (expavg_credit, id, merged_into, removed_time) WHERE merged_into IS NULL AND removed_time IS NULL;
CREATE INDEX host_by_total ON host (total_credit, id, merged_into, removed_time) WHERE merged_into IS NULL AND removed_time IS NULL;
CREATE INDEX host_merged ON host (merged_into) WHERE merged_into IS NOT NULL;
CREATE INDEX host_removed ON host (removed_time) WHERE removed_time IS NOT NULL;
CREATE INDEX host_storage_answered ON host_storage (host_id) WHERE answer <> '';
CREATE INDEX kept_file_by_name ON kept_file (file_name, counted);
CREATE INDEX kept_file_to_count ON kept_file (host_id) WHERE listed = 1 AND counted = 0;
CREATE INDEX mail_waiting ON mail (next_time) WHERE sent_time IS NULL;
CREATE INDEX msg_to_host_waiting ON msg_to_host (host_id) WHERE sent_time IS NULL;
CREATE INDEX code_by_user ON one_time_code (user_id, purpose);
CREATE INDEX received_file_by_name ON received_file (file_name);
CREATE INDEX result_by_app ON result (app_id);
CREATE INDEX result_by_host ON result (host_id, id);
CREATE INDEX result_by_user ON result (user_id, id);
CREATE INDEX result_by_workunit ON result (workunit_id, user_id);
CREATE INDEX result_delete ON result (id) WHERE file_delete_state = 1;
CREATE INDEX result_in_progress ON result (host_id) WHERE server_state = 4;
CREATE INDEX result_unsent ON result (priority DESC, turn, id) WHERE server_state = 2;
CREATE INDEX team_by_credit ON team (expavg_credit, id);
CREATE INDEX team_by_total ON team (total_credit, id);
CREATE INDEX team_message_by_team ON team_message (team_id, id);
CREATE INDEX upload_by_result ON upload (result_id);
CREATE INDEX user_by_credit ON user_account (expavg_credit, id, erased_time) WHERE erased_time IS NULL;
CREATE INDEX user_by_team ON user_account (team_id);
CREATE INDEX user_by_total ON user_account (total_credit, id, erased_time) WHERE erased_time IS NULL;
CREATE INDEX user_to_erase ON user_account (erase_time) WHERE erase_time IS NOT NULL AND erased_time IS NULL;
CREATE INDEX wu_archive ON workunit (batch_id, completed_time) WHERE file_delete_state = 2;
CREATE INDEX wu_assimilate ON workunit (id) WHERE assimilate_state = 1;
CREATE INDEX wu_by_batch ON workunit (batch_id, completed_seq);
CREATE INDEX wu_delete ON workunit (id) WHERE file_delete_state = 1;
CREATE INDEX wu_due ON workunit (transition_time) WHERE transition_time IS NOT NULL;
CREATE INDEX wu_targeted ON workunit (id) WHERE assimilate_state = 0
    AND (target_host_id IS NOT NULL OR target_user_id IS NOT NULL OR target_team_id IS NOT NULL);
CREATE INDEX wu_validate ON workunit (id) WHERE need_validate = 1;
CREATE INDEX escrow_by_host ON escrow (host_id, price);
CREATE INDEX escrow_by_user ON escrow (user_id, price);
CREATE INDEX escrow_by_workunit ON escrow (workunit_id);
CREATE INDEX webhook_by_next ON webhook (next_time);
CREATE INDEX wu_of_batch ON workunit (batch_id, id) WHERE batch_id IS NOT NULL;
CREATE INDEX wu_for_host ON workunit (target_host_id, id) WHERE target_host_id IS NOT NULL AND assimilate_state = 0;
CREATE INDEX wu_for_user ON workunit (target_user_id, id) WHERE target_user_id IS NOT NULL AND assimilate_state = 0;
CREATE INDEX wu_for_team ON workunit (target_team_id, id) WHERE target_team_id IS NOT NULL AND assimilate_state = 0;
CREATE INDEX msg_from_host_waiting ON msg_from_host (variety, id) WHERE handled = 0;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('code_sign_key',1);
INSERT INTO "sqlite_sequence" VALUES('user_account',3);
INSERT INTO "sqlite_sequence" VALUES('host',4);
INSERT INTO "sqlite_sequence" VALUES('app',5);
INSERT INTO "sqlite_sequence" VALUES('app_version',6);
INSERT INTO "sqlite_sequence" VALUES('batch',10);
INSERT INTO "sqlite_sequence" VALUES('workunit',17);
INSERT INTO "sqlite_sequence" VALUES('result',39);
INSERT INTO "sqlite_sequence" VALUES('msg_from_host',1);
INSERT INTO "sqlite_sequence" VALUES('credit_entry',22);
INSERT INTO "sqlite_sequence" VALUES('audit_entry',2);
INSERT INTO "sqlite_sequence" VALUES('credit_inheritance',3);
INSERT INTO "sqlite_sequence" VALUES('contribution_entry',21);
INSERT INTO "sqlite_sequence" VALUES('team',1);
INSERT INTO "sqlite_sequence" VALUES('team_message',1);
INSERT INTO "sqlite_sequence" VALUES('news',1);
INSERT INTO "sqlite_sequence" VALUES('consent',1);
INSERT INTO "sqlite_sequence" VALUES('one_time_code',1);
INSERT INTO "sqlite_sequence" VALUES('api_token',2);
INSERT INTO "sqlite_sequence" VALUES('mail',1);
INSERT INTO "sqlite_sequence" VALUES('msg_to_host',1);
INSERT INTO "sqlite_sequence" VALUES('credit_decay',3);
INSERT INTO "sqlite_sequence" VALUES('badge',9);
COMMIT;
