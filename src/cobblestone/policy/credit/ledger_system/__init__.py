"""The ledger system of credit: own reports move credit only between own jobs, and refused jobs stay on the account.

`records` holds its state, `rules` the formulas as functions of plain numbers, `readings`, `pricing` and `learning` apply them,
and `engine` is the pure step (state, event) -> outcome.  It knows nothing of databases or of the other systems.
docs/credit-ledger.md states what it promises.

Model
-----

    ln(T·P / E) = c + a + d + s + e

T is the run time, P the speed of the devices at the host's first report, E the estimate of the job. c belongs to the
stratum (a tag by which the scheduler routes), a to the app version, d to the host. s is the error of the estimate, with
variance σE² over jobs, e the noise of a run, with σN²·q; q is the host's noise factor. The residual of a report is u =
ln(T·P/E) − c − a − d. A time that is NaN, infinite, zero or negative is no report. The value of a job is V = E · unit ·
exp(c).

Prices
------

Weight. A report with residual variance p⁻¹ = σN²·max(1, q) + v + v_a (v and v_a are the variances of d and a) says about
the size of the job with weight w = σE²/(σE² + p⁻¹). A new host has a large v, so it counts for little. Beyond k =
1.75·√(σE² + σN²) a residual counts in full, as far as its host is known.

Two or more valid results. The price is V · exp(ψ(u) − w·σE²/2) / G, with u from the other people's reports, weighted by
precision. Each partner's residual above k needs the consent of all other reports, the claimant's own among them. When two
reports both lie above k, a third computer is asked first.

One valid result. The own report asks for a factor in the same way, but the change from V is at most what the bank holds: B
+ β·V, with β = 0.04. Then B := B + β·V − (price − V). A price is at least a tenth of what the job seems to be worth. A bank
below 0 is taken off the credit.

Unit keepers. G is the running mean of the factor, weighted by value: one for partners, one for own reports.

Refused jobs
------------

When others have finished the job, a host whose results are replicated owes V·(m − p): size and price by the lowest of the
reports, as if it were one partner's, each divided by its own running mean over jobs. So m − p is 0 on average, whoever lies
upwards, and the debt of an honest host that fails at random has mean 0. A host that computes alone owes V·(m − 1) to its bank.
Debt is taken off its credit; the opposite is set off against later refusals and never paid.

Price of an identity. Half the price of the first two jobs is held until a host has 20 valid jobs.

Checks
------

After the upload of a result that would be priced alone, a check is drawn with probability p = max(0.02, 10/W) × (value of
the job / mean price of the host's jobs), and 1 while W ≤ 10. W counts valid jobs since the last failed check. With a quorum
of two, p for a third result is 0.02, or the share of jobs that one of the hosts refuses if that is more: who refuses most
jobs could keep those that an accomplice has. A host that failed before has p as above.

A price without a check is in escrow. A passed check makes the escrow final, for the host that was checked only: the
computer that came as the check may know it. After a failed check up to five random results in escrow are computed again: if
all are right, the escrow is final and W becomes W/4; if one is wrong, the escrow is revoked and W = 0. If two people had
agreed on a wrong result, all provisional results of both are computed again, and so on with those who agreed on what is
found.

Learning
--------

d, a, v and q follow from the residuals (less what partners say of the job) by a Kalman filter with clipped innovations;
hosts that are not known have nearly no vote on a version. σN and σE come from running medians of |u₁ − u₂| and |u₁ + u₂|/2
of two known hosts in one job, so checks also measure. A new version inherits d; its a begins at the first report, so hosts
that ran both versions link them. In routed work, c of a stratum is what versions that compute both find different. A step
of the estimates is found by cumulative sums of residuals clipped at σ, then measured by Huber's location. Apps with early
exits switch this off.
"""
