"""First schema (expand)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "api_reply",
        sa.Column("request_key", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), server_default="", nullable=False),
        sa.Column("reply", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "expire_time",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("request_key"),
        sqlite_strict=True,
    )
    with op.batch_alter_table("api_reply", schema=None) as batch_op:
        batch_op.create_index("api_reply_expired", ["expire_time"], unique=False)

    op.create_table(
        "api_token",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.Text(), server_default="", nullable=False),
        sa.Column("token_hash", sa.Text(), server_default="", nullable=False),
        sa.Column("user_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("scopes", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "share",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("1"),
            nullable=False,
        ),
        sa.Column(
            "create_time",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("expire_time", sa.Double().with_variant(sa.REAL(), "sqlite"), nullable=True),
        sa.Column("revoke_time", sa.Double().with_variant(sa.REAL(), "sqlite"), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("token_hash"),
        sqlite_autoincrement=True,
        sqlite_strict=True,
    )
    op.create_table(
        "app",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.Text(), server_default="", nullable=False),
        sa.Column("user_friendly_name", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "deprecated",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "beta",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("comparison", sa.Text(), server_default="{}", nullable=False),
        sa.Column("assimilator", sa.Text(), server_default="", nullable=False),
        sa.Column("credit_system", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "fixed_credit",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "host_scale_check",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "partial_credit",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "credit_per_cpu_second",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("credit_function", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "min_avg_pfc",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("1"),
            nullable=False,
        ),
        sa.Column(
            "flops_scale",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("1"),
            nullable=False,
        ),
        sa.Column(
            "counted_benchmark_credit",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "counted_credit",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "counted_cpu_seconds",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "counted_jobs",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("limits", sa.Text(), server_default="{}", nullable=False),
        sa.Column("rules", sa.Text(), server_default="{}", nullable=False),
        sa.Column("output_specs", sa.Text(), server_default="[]", nullable=False),
        sa.Column("dispatch", sa.Text(), server_default="{}", nullable=False),
        sa.Column("command", sa.Text(), server_default="[]", nullable=False),
        sa.Column(
            "create_time",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
        sqlite_autoincrement=True,
        sqlite_strict=True,
    )
    op.create_table(
        "app_credit",
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column(
            "app_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column(
            "owner_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column(
            "n_results",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "total_credit",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "expavg_credit",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "expavg_time",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("owner", "app_id", "owner_id"),
        sqlite_autoincrement=False,
        sqlite_strict=True,
    )
    with op.batch_alter_table("app_credit", schema=None) as batch_op:
        batch_op.create_index("app_credit_by_owner", ["owner", "owner_id"], unique=False)
        batch_op.create_index("app_credit_by_recent", ["owner", "app_id", "expavg_credit"], unique=False)
        batch_op.create_index("app_credit_by_total", ["owner", "app_id", "total_credit"], unique=False)

    op.create_table(
        "app_version",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column(
            "app_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("platform", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "version_num",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("plan_class", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "deprecated",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "beta",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("api_version", sa.Text(), server_default="", nullable=False),
        sa.Column("command_line", sa.Text(), server_default="", nullable=False),
        sa.Column("files", sa.Text(), server_default="[]", nullable=False),
        sa.Column(
            "min_client_version",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "max_client_version",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "create_time",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "rollout_fraction",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("1"),
            nullable=False,
        ),
        sa.Column("rollout_plan", sa.Text(), server_default="{}", nullable=False),
        sa.Column(
            "pfc_n",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "pfc_avg",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "pfc_var",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "pfc_q",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "pfc_scale",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "total_credit",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "expavg_credit",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "expavg_time",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("app_id", "platform", "version_num", "plan_class"),
        sqlite_autoincrement=True,
        sqlite_strict=True,
    )
    op.create_table(
        "audit_entry",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column(
            "time",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("actor", sa.Text(), server_default="", nullable=False),
        sa.Column("origin", sa.Text(), server_default="", nullable=False),
        sa.Column("action", sa.Text(), server_default="", nullable=False),
        sa.Column("target", sa.Text(), server_default="", nullable=False),
        sa.Column("before", sa.Text(), server_default="null", nullable=False),
        sa.Column("after", sa.Text(), server_default="null", nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
        sqlite_strict=True,
    )
    with op.batch_alter_table("audit_entry", schema=None) as batch_op:
        batch_op.create_index("audit_by_target", ["target"], unique=False)

    op.create_table(
        "batch",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "app_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("token_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("request_key", sa.Text(), nullable=True),
        sa.Column(
            "state",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "create_time",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("complete_time", sa.Double().with_variant(sa.REAL(), "sqlite"), nullable=True),
        sa.Column(
            "njobs",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "n_success",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "n_error",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "priority",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "fair_weight",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("1"),
            nullable=False,
        ),
        sa.Column(
            "turn",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("request_key"),
        sqlite_autoincrement=True,
        sqlite_strict=True,
    )
    with op.batch_alter_table("batch", schema=None) as batch_op:
        batch_op.create_index(
            "batch_unfinished",
            ["token_id"],
            unique=False,
            sqlite_where=sa.text("state IN (0, 1)"),
            postgresql_where=sa.text("state IN (0, 1)"),
        )

    op.create_table(
        "code_sign_key",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("public_key", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "create_time",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "is_current",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("successor_signature", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
        sqlite_strict=True,
    )
    op.create_table(
        "credit_decay",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column(
            "time", sa.Double().with_variant(sa.REAL(), "sqlite"), server_default=sa.text("0"), nullable=False
        ),
        sa.Column("table_name", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "first_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "last_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "last_entry_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
        sqlite_strict=True,
    )
    op.create_table(
        "credit_entry",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column(
            "time", sa.Double().with_variant(sa.REAL(), "sqlite"), server_default=sa.text("0"), nullable=False
        ),
        sa.Column(
            "result_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "workunit_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "host_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "user_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("team_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("app_version_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("kind", sa.Text(), server_default="", nullable=False),
        sa.Column("system", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "claimed",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "granted",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "unit", sa.Double().with_variant(sa.REAL(), "sqlite"), server_default=sa.text("0"), nullable=False
        ),
        sa.Column(
            "work_start",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("reasons", sa.Text(), server_default="[]", nullable=False),
        sa.Column("facts", sa.Text(), server_default="{}", nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
        sqlite_strict=True,
    )
    with op.batch_alter_table("credit_entry", schema=None) as batch_op:
        batch_op.create_index("credit_by_host", ["host_id", "time"], unique=False)
        batch_op.create_index("credit_by_result", ["result_id"], unique=False)
        batch_op.create_index(
            "credit_by_team",
            ["team_id", "time"],
            unique=False,
            sqlite_where=sa.text("team_id IS NOT NULL"),
            postgresql_where=sa.text("team_id IS NOT NULL"),
        )
        batch_op.create_index("credit_by_user", ["user_id", "time"], unique=False)
        batch_op.create_index(
            "credit_once",
            ["result_id"],
            unique=True,
            sqlite_where=sa.text("kind = 'grant'"),
            postgresql_where=sa.text("kind = 'grant'"),
        )

    op.create_table(
        "credit_inheritance",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column(
            "time", sa.Double().with_variant(sa.REAL(), "sqlite"), server_default=sa.text("0"), nullable=False
        ),
        sa.Column(
            "host_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "from_version_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "to_version_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "last_entry_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
        sqlite_strict=True,
    )
    op.create_table(
        "file",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column(
            "nbytes",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("md5", sa.Text(), server_default="", nullable=False),
        sa.Column("gzipped_nbytes", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column(
            "refs",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "touched_time",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("name"),
        sqlite_autoincrement=False,
        sqlite_strict=True,
    )
    with op.batch_alter_table("file", schema=None) as batch_op:
        batch_op.create_index(
            "file_unused",
            ["touched_time"],
            unique=False,
            sqlite_where=sa.text("refs <= 0"),
            postgresql_where=sa.text("refs <= 0"),
        )

    op.create_table(
        "host",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column(
            "user_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("host_cpid", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "rpc_seqno",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "rpc_time",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "create_time",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("venue", sa.Text(), server_default="", nullable=False),
        sa.Column("domain_name", sa.Text(), server_default="", nullable=False),
        sa.Column("label", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "hidden",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("removed_time", sa.Double().with_variant(sa.REAL(), "sqlite"), nullable=True),
        sa.Column("external_ip_addr", sa.Text(), server_default="", nullable=False),
        sa.Column("description", sa.Text(), server_default="{}", nullable=False),
        sa.Column("blocked_reason", sa.Text(), server_default="", nullable=False),
        sa.Column("trouble", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "trouble_time",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("merged_into", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column(
            "total_credit",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "expavg_credit",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "expavg_time",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
        sqlite_strict=True,
    )
    with op.batch_alter_table("host", schema=None) as batch_op:
        batch_op.create_index("host_by_cpid", ["user_id", "host_cpid"], unique=False)
        batch_op.create_index("host_by_credit", ["expavg_credit"], unique=False)
        batch_op.create_index("host_by_total", ["total_credit"], unique=False)

    op.create_table(
        "host_app_version",
        sa.Column(
            "host_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column(
            "app_version_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column(
            "max_jobs_per_day",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "n_jobs_today",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "quota_day",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "consecutive_valid",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "pfc_n",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "pfc_avg",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "pfc_var",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "pfc_q",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "et_n",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "et_avg",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "et_var",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "et_q", sa.Double().with_variant(sa.REAL(), "sqlite"), server_default=sa.text("0"), nullable=False
        ),
        sa.Column(
            "turnaround_n",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "turnaround_avg",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "turnaround_var",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "turnaround_q",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "error_rate",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("(0.1)"),
            nullable=False,
        ),
        sa.Column(
            "scale_probation",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("1"),
            nullable=False,
        ),
        sa.Column(
            "host_scale_time",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "bad_results",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("host_id", "app_version_id"),
        sqlite_autoincrement=False,
        sqlite_strict=True,
    )
    op.create_table(
        "mail",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column(
            "create_time",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("recipient", sa.Text(), server_default="", nullable=False),
        sa.Column("subject", sa.Text(), server_default="", nullable=False),
        sa.Column("body", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "attempts",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "next_time",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("sent_time", sa.Double().with_variant(sa.REAL(), "sqlite"), nullable=True),
        sa.Column("error", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
        sqlite_strict=True,
    )
    with op.batch_alter_table("mail", schema=None) as batch_op:
        batch_op.create_index(
            "mail_waiting",
            ["next_time"],
            unique=False,
            sqlite_where=sa.text("sent_time IS NULL"),
            postgresql_where=sa.text("sent_time IS NULL"),
        )

    op.create_table(
        "meta",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.Text(), server_default="", nullable=False),
        sa.PrimaryKeyConstraint("key"),
        sqlite_autoincrement=False,
        sqlite_strict=True,
    )
    op.create_table(
        "msg_from_host",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column(
            "host_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("result_name", sa.Text(), server_default="", nullable=False),
        sa.Column("variety", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "time",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("text", sa.Text(), server_default="", nullable=False),
        sa.Column("digest", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "receive_time",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "handled",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("host_id", "result_name", "time", "digest"),
        sqlite_autoincrement=True,
        sqlite_strict=True,
    )
    op.create_table(
        "msg_to_host",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column(
            "host_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("result_name", sa.Text(), server_default="", nullable=False),
        sa.Column("text", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "create_time",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("sent_time", sa.Double().with_variant(sa.REAL(), "sqlite"), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
        sqlite_strict=True,
    )
    with op.batch_alter_table("msg_to_host", schema=None) as batch_op:
        batch_op.create_index(
            "msg_to_host_waiting",
            ["host_id"],
            unique=False,
            sqlite_where=sa.text("sent_time IS NULL"),
            postgresql_where=sa.text("sent_time IS NULL"),
        )

    op.create_table(
        "news",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("title", sa.Text(), server_default="", nullable=False),
        sa.Column("text", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "time", sa.Double().with_variant(sa.REAL(), "sqlite"), server_default=sa.text("0"), nullable=False
        ),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
        sqlite_strict=True,
    )
    op.create_table(
        "one_time_code",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column(
            "user_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("purpose", sa.Text(), server_default="", nullable=False),
        sa.Column("code_hash", sa.Text(), server_default="", nullable=False),
        sa.Column("payload", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "create_time",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("expire_time", sa.Double().with_variant(sa.REAL(), "sqlite"), nullable=True),
        sa.Column("used_time", sa.Double().with_variant(sa.REAL(), "sqlite"), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("code_hash"),
        sqlite_autoincrement=True,
        sqlite_strict=True,
    )
    with op.batch_alter_table("one_time_code", schema=None) as batch_op:
        batch_op.create_index("code_by_user", ["user_id", "purpose"], unique=False)

    op.create_table(
        "project_sample",
        sa.Column("time", sa.Double().with_variant(sa.REAL(), "sqlite"), nullable=False),
        sa.Column("figures", sa.Text(), server_default="{}", nullable=False),
        sa.PrimaryKeyConstraint("time"),
        sqlite_strict=True,
    )
    op.create_table(
        "server_process",
        sa.Column("process_key", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "pid",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("roles", sa.Text(), server_default="", nullable=False),
        sa.Column("version", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "started",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "beat_time",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "ended",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("daemons", sa.Text(), server_default="[]", nullable=False),
        sa.PrimaryKeyConstraint("process_key"),
        sqlite_strict=True,
    )
    op.create_table(
        "result",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "workunit_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "app_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "priority",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "turn",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "server_state",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("2"),
            nullable=False,
        ),
        sa.Column(
            "outcome",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "client_state",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "validate_state",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "file_delete_state",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("host_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("user_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("app_version_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column(
            "create_time",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("sent_time", sa.Double().with_variant(sa.REAL(), "sqlite"), nullable=True),
        sa.Column("report_deadline", sa.Double().with_variant(sa.REAL(), "sqlite"), nullable=True),
        sa.Column("received_time", sa.Double().with_variant(sa.REAL(), "sqlite"), nullable=True),
        sa.Column(
            "cpu_time",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "elapsed_time",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "exit_status",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "claimed_credit",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "granted_credit",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "peak_flops",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "fpops_counted",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "intops_counted",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "outlier",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "trickle_seconds",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
        sqlite_autoincrement=True,
        sqlite_strict=True,
    )
    with op.batch_alter_table("result", schema=None) as batch_op:
        batch_op.create_index("result_by_app", ["app_id"], unique=False)
        batch_op.create_index("result_by_host", ["host_id", "id"], unique=False)
        batch_op.create_index("result_by_user", ["user_id", "id"], unique=False)
        batch_op.create_index("result_by_workunit", ["workunit_id", "user_id"], unique=False)
        batch_op.create_index(
            "result_delete",
            ["id"],
            unique=False,
            sqlite_where=sa.text("file_delete_state = 1"),
            postgresql_where=sa.text("file_delete_state = 1"),
        )
        batch_op.create_index(
            "result_in_progress",
            ["host_id"],
            unique=False,
            sqlite_where=sa.text("server_state = 4"),
            postgresql_where=sa.text("server_state = 4"),
        )

    op.create_table(
        "result_text",
        sa.Column(
            "result_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("stderr", sa.LargeBinary(), nullable=True),
        sa.Column("report", sa.Text(), server_default="{}", nullable=False),
        sa.PrimaryKeyConstraint("result_id"),
        sqlite_autoincrement=False,
        sqlite_strict=True,
    )
    op.create_table(
        "team",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.Text(), server_default="", nullable=False),
        sa.Column("name_lc", sa.Text(), server_default="", nullable=False),
        sa.Column("founder_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column(
            "create_time",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("description", sa.Text(), server_default="", nullable=False),
        sa.Column("url", sa.Text(), server_default="", nullable=False),
        sa.Column("country", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "joinable",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("1"),
            nullable=False,
        ),
        sa.Column(
            "total_credit",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "expavg_credit",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "expavg_time",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name_lc"),
        sqlite_autoincrement=True,
        sqlite_strict=True,
    )
    with op.batch_alter_table("team", schema=None) as batch_op:
        batch_op.create_index("team_by_credit", ["expavg_credit"], unique=False)
        batch_op.create_index("team_by_total", ["total_credit"], unique=False)

    op.create_table(
        "upload",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column(
            "result_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "nbytes",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("md5", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "gzipped",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("data", sa.LargeBinary(), nullable=True),
        sa.Column(
            "time", sa.Double().with_variant(sa.REAL(), "sqlite"), server_default=sa.text("0"), nullable=False
        ),
        sa.PrimaryKeyConstraint("name"),
        sqlite_autoincrement=False,
        sqlite_strict=True,
    )
    with op.batch_alter_table("upload", schema=None) as batch_op:
        batch_op.create_index("upload_by_result", ["result_id"], unique=False)

    op.create_table(
        "user_account",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.Text(), server_default="", nullable=False),
        sa.Column("email_addr", sa.Text(), server_default="", nullable=False),
        sa.Column("authenticator", sa.Text(), server_default="", nullable=False),
        sa.Column("weak_authenticator", sa.Text(), server_default="", nullable=False),
        sa.Column("passwd_hash", sa.Text(), server_default="", nullable=False),
        sa.Column("cross_project_id", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "create_time",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("team_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("venue", sa.Text(), server_default="", nullable=False),
        sa.Column("country", sa.Text(), server_default="", nullable=False),
        sa.Column("url", sa.Text(), server_default="", nullable=False),
        sa.Column("global_prefs", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "global_prefs_time",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("project_prefs", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "show_hosts",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("1"),
            nullable=False,
        ),
        sa.Column("role", sa.Text(), server_default="", nullable=False),
        sa.Column("blocked_reason", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "send_email",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("1"),
            nullable=False,
        ),
        sa.Column("language", sa.Text(), server_default="", nullable=False),
        sa.Column("totp_secret", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "totp_step",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "session_epoch",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("erase_time", sa.Double().with_variant(sa.REAL(), "sqlite"), nullable=True),
        sa.Column("erased_time", sa.Double().with_variant(sa.REAL(), "sqlite"), nullable=True),
        sa.Column(
            "total_credit",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "expavg_credit",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "expavg_time",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("authenticator"),
        sa.UniqueConstraint("email_addr"),
        sa.UniqueConstraint("weak_authenticator"),
        sqlite_autoincrement=True,
        sqlite_strict=True,
    )
    with op.batch_alter_table("user_account", schema=None) as batch_op:
        batch_op.create_index("user_by_credit", ["expavg_credit"], unique=False)
        batch_op.create_index("user_by_team", ["team_id"], unique=False)
        batch_op.create_index("user_by_total", ["total_credit"], unique=False)
        batch_op.create_index(
            "user_to_erase",
            ["erase_time"],
            unique=False,
            sqlite_where=sa.text("erase_time IS NOT NULL AND erased_time IS NULL"),
            postgresql_where=sa.text("erase_time IS NOT NULL AND erased_time IS NULL"),
        )

    op.create_table(
        "workunit",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "app_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("batch_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("label", sa.Text(), server_default="", nullable=False),
        sa.Column(
            "create_time",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "priority",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("command_line", sa.Text(), server_default="", nullable=False),
        sa.Column("input_files", sa.Text(), server_default="[]", nullable=False),
        sa.Column("output_specs", sa.Text(), server_default="[]", nullable=False),
        sa.Column(
            "rsc_fpops_est",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "rsc_fpops_bound",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "rsc_memory_bound",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "rsc_disk_bound",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "rsc_bandwidth_bound",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "delay_bound",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "min_quorum",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "target_nresults",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "max_error_results",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "max_total_results",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "max_success_results",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "need_validate",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("canonical_result_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column(
            "canonical_credit",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "fixed_credit",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("transition_time", sa.Double().with_variant(sa.REAL(), "sqlite"), nullable=True),
        sa.Column(
            "error_mask",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "assimilate_state",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "file_delete_state",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "hr_class",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("app_version_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("target_host_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("target_user_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("target_team_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column(
            "size_class",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("-1"),
            nullable=False,
        ),
        sa.Column(
            "turn",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column("completed_seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=True),
        sa.Column("completed_time", sa.Double().with_variant(sa.REAL(), "sqlite"), nullable=True),
        sa.Column(
            "handler_failures",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.Column(
            "retry_time",
            sa.Double().with_variant(sa.REAL(), "sqlite"),
            server_default=sa.text("0"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
        sqlite_autoincrement=True,
        sqlite_strict=True,
    )
    with op.batch_alter_table("workunit", schema=None) as batch_op:
        batch_op.create_index(
            "wu_assimilate",
            ["id"],
            unique=False,
            sqlite_where=sa.text("assimilate_state = 1"),
            postgresql_where=sa.text("assimilate_state = 1"),
        )
        batch_op.create_index("wu_by_batch", ["batch_id", "completed_seq"], unique=False)
        batch_op.create_index(
            "wu_delete",
            ["id"],
            unique=False,
            sqlite_where=sa.text("file_delete_state = 1"),
            postgresql_where=sa.text("file_delete_state = 1"),
        )
        batch_op.create_index(
            "wu_due",
            ["transition_time"],
            unique=False,
            sqlite_where=sa.text("transition_time IS NOT NULL"),
            postgresql_where=sa.text("transition_time IS NOT NULL"),
        )
        batch_op.create_index(
            "wu_purge",
            ["completed_time"],
            unique=False,
            sqlite_where=sa.text("file_delete_state = 2"),
            postgresql_where=sa.text("file_delete_state = 2"),
        )
        batch_op.create_index(
            "wu_targeted",
            ["id"],
            unique=False,
            sqlite_where=sa.text(
                "assimilate_state = 0 AND"
                " (target_host_id IS NOT NULL OR target_user_id IS NOT NULL OR target_team_id IS NOT NULL)"
            ),
            postgresql_where=sa.text(
                "assimilate_state = 0 AND"
                " (target_host_id IS NOT NULL OR target_user_id IS NOT NULL OR target_team_id IS NOT NULL)"
            ),
        )
        batch_op.create_index(
            "wu_validate",
            ["id"],
            unique=False,
            sqlite_where=sa.text("need_validate = 1"),
            postgresql_where=sa.text("need_validate = 1"),
        )

    op.create_index(
        "result_unsent",
        "result",
        [sa.text("priority DESC"), "turn", "id"],
        unique=False,
        sqlite_where=sa.text("server_state = 2"),
        postgresql_where=sa.text("server_state = 2"),
    )


def downgrade() -> None:
    with op.batch_alter_table("workunit", schema=None) as batch_op:
        batch_op.drop_index(
            "wu_validate",
            sqlite_where=sa.text("need_validate = 1"),
            postgresql_where=sa.text("need_validate = 1"),
        )
        batch_op.drop_index("wu_targeted")
        batch_op.drop_index(
            "wu_purge",
            sqlite_where=sa.text("file_delete_state = 2"),
            postgresql_where=sa.text("file_delete_state = 2"),
        )
        batch_op.drop_index(
            "wu_due",
            sqlite_where=sa.text("transition_time IS NOT NULL"),
            postgresql_where=sa.text("transition_time IS NOT NULL"),
        )
        batch_op.drop_index(
            "wu_delete",
            sqlite_where=sa.text("file_delete_state = 1"),
            postgresql_where=sa.text("file_delete_state = 1"),
        )
        batch_op.drop_index("wu_by_batch")
        batch_op.drop_index(
            "wu_assimilate",
            sqlite_where=sa.text("assimilate_state = 1"),
            postgresql_where=sa.text("assimilate_state = 1"),
        )

    op.drop_table("workunit")
    with op.batch_alter_table("user_account", schema=None) as batch_op:
        batch_op.drop_index(
            "user_to_erase",
            sqlite_where=sa.text("erase_time IS NOT NULL AND erased_time IS NULL"),
            postgresql_where=sa.text("erase_time IS NOT NULL AND erased_time IS NULL"),
        )
        batch_op.drop_index("user_by_total")
        batch_op.drop_index("user_by_team")
        batch_op.drop_index("user_by_credit")

    op.drop_table("user_account")
    with op.batch_alter_table("upload", schema=None) as batch_op:
        batch_op.drop_index("upload_by_result")

    op.drop_table("upload")
    with op.batch_alter_table("team", schema=None) as batch_op:
        batch_op.drop_index("team_by_total")
        batch_op.drop_index("team_by_credit")

    op.drop_table("team")
    op.drop_table("result_text")
    with op.batch_alter_table("result", schema=None) as batch_op:
        batch_op.drop_index(
            "result_in_progress",
            sqlite_where=sa.text("server_state = 4"),
            postgresql_where=sa.text("server_state = 4"),
        )
        batch_op.drop_index(
            "result_delete",
            sqlite_where=sa.text("file_delete_state = 1"),
            postgresql_where=sa.text("file_delete_state = 1"),
        )
        batch_op.drop_index("result_by_workunit")
        batch_op.drop_index("result_by_user")
        batch_op.drop_index("result_by_host")
        batch_op.drop_index("result_by_app")

    op.drop_table("result")
    with op.batch_alter_table("one_time_code", schema=None) as batch_op:
        batch_op.drop_index("code_by_user")

    op.drop_table("one_time_code")
    op.drop_table("server_process")
    op.drop_table("project_sample")
    op.drop_table("news")
    with op.batch_alter_table("msg_to_host", schema=None) as batch_op:
        batch_op.drop_index(
            "msg_to_host_waiting",
            sqlite_where=sa.text("sent_time IS NULL"),
            postgresql_where=sa.text("sent_time IS NULL"),
        )

    op.drop_table("msg_to_host")
    op.drop_table("msg_from_host")
    op.drop_table("meta")
    with op.batch_alter_table("mail", schema=None) as batch_op:
        batch_op.drop_index(
            "mail_waiting",
            sqlite_where=sa.text("sent_time IS NULL"),
            postgresql_where=sa.text("sent_time IS NULL"),
        )

    op.drop_table("mail")
    op.drop_table("host_app_version")
    with op.batch_alter_table("host", schema=None) as batch_op:
        batch_op.drop_index("host_by_total")
        batch_op.drop_index("host_by_credit")
        batch_op.drop_index("host_by_cpid")

    op.drop_table("host")
    with op.batch_alter_table("file", schema=None) as batch_op:
        batch_op.drop_index(
            "file_unused", sqlite_where=sa.text("refs <= 0"), postgresql_where=sa.text("refs <= 0")
        )

    op.drop_table("file")
    op.drop_table("credit_inheritance")
    with op.batch_alter_table("credit_entry", schema=None) as batch_op:
        batch_op.drop_index(
            "credit_once", sqlite_where=sa.text("kind = 'grant'"), postgresql_where=sa.text("kind = 'grant'")
        )
        batch_op.drop_index("credit_by_user")
        batch_op.drop_index(
            "credit_by_team",
            sqlite_where=sa.text("team_id IS NOT NULL"),
            postgresql_where=sa.text("team_id IS NOT NULL"),
        )
        batch_op.drop_index("credit_by_result")
        batch_op.drop_index("credit_by_host")

    op.drop_table("credit_entry")
    op.drop_table("credit_decay")
    op.drop_table("code_sign_key")
    with op.batch_alter_table("batch", schema=None) as batch_op:
        batch_op.drop_index("batch_unfinished")

    op.drop_table("batch")
    with op.batch_alter_table("audit_entry", schema=None) as batch_op:
        batch_op.drop_index("audit_by_target")

    op.drop_table("audit_entry")
    op.drop_table("app_version")
    with op.batch_alter_table("app_credit", schema=None) as batch_op:
        batch_op.drop_index("app_credit_by_total")
        batch_op.drop_index("app_credit_by_recent")
        batch_op.drop_index("app_credit_by_owner")

    op.drop_table("app_credit")
    op.drop_table("app")
    op.drop_table("api_token")
    with op.batch_alter_table("api_reply", schema=None) as batch_op:
        batch_op.drop_index("api_reply_expired")

    op.drop_table("api_reply")
