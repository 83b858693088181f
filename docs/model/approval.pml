/* approval.pml: the whole life of a run that pauses for people, in two services with a database each.

   R keeps the run, its queue and its calls; A keeps the suspensions and the verdicts. Each batch of the run is two gated
   calls; a tool may also stop in the middle of a call to ask (T8n), which makes a suspension of its own. The names of the
   transitions (T1 ... T10, S1 ... S4) are those of docs/system-architecture.md and of the comments in the SQL.

   Each atomic{} is one transaction of one database. What can go wrong, and how it is here:
     crash        a worker may drop what it does between any two transactions, before and after the effect (die());
                  R's API may die between Withdraw and T5; a row left in an outbox is a message that comes later
     messages     hint[] and oopen[] count copies under way: 0 = lost (dead letter, broker lost it), 2 = published again by
                  a relay that died before marking. A copy may arrive at any time, also in a later generation. One copy is
                  covered by two: a hint that changes nothing is as good as none
     frozen       T6 may strike at any moment of RUNNING; the old worker goes on later from where it was
     people       a decider has no memory between transactions, so one process that may decide at any time stands for any
                  number of deciders, full or late (late[] = past expires_at: it performs S3). A refused decide changes
                  nothing and is left out; -DNOGUARD lets it in
     cancel       once, at any time; Withdraw done and answered, done with the answer lost, or never arrived
     questions    a started call may ask instead of acting: T8n started -> needs_input, in the transaction of T2. The answer
                  is copied by T3; the re-entry needs_input -> started has the same key and entry + 1. A server that asks
                  promises that it has done nothing yet (-DASKAFTER breaks that promise). A question that is rejected is the
                  call's result; one that the run's end leaves open is skipped, since nothing was done
   Lease epochs are compared for equality only, so numbers are reused (FRESH = held by nobody): a symmetry, not a loss.

   Invariants: assert()s in decide, S3, S4, T3/T4, T7, the re-entry, effect, T8b, Monitor, and in init when nothing can move
   any more (timeout): the run is terminal, nothing is pending, every call of it is accounted for. Every state graph without
   cycles ends in such a state, so this is liveness too: pan -l (-DNP) finds no cycle in the two quick configurations.

   Run: python tools/model.py quick|full (make check, make model); by hand
        spin -a [flags] approval.pml && gcc -O2 -DSAFETY -DCOLLAPSE -DMEMLIM=18000 pan.c -o pan && ./pan -m100000 -w27
        shortest trace of a small configuration: -DBFS instead, then spin [flags] -t -p approval.pml
   Sizes: -DBATCHES=1|2 (2), -DASKS=0|1|2 questions a run may ask (0; BATCHES + ASKS <= 3), -DMAXATT=n reaps between two
   answers before recovery_exhausted (1), -DNOCANCEL, -DNORELEASE (no T10), -DMOREDEC (also reject+approve), -DNOFIN
   (without the last bookkeeping assertions, to see the deeper one).

   RESULT (Spin 6.5.2, exhaustive, partial order reduction and COLLAPSE, no bitstate; a machine with 2 cores and 24 GB; * = with
   much other work beside it, which had two thirds of the processors)
     flags                                              states       s     MB    errors
     (none: two batches)                           128,666,560   2,111*  7411    0
     -DBATCHES=1 -DASKS=1                          105,637,200   1,814*  6183    0
     -DBATCHES=1 -DASKS=1 -DNORELEASE               28,073,998     111   2025    0
     -DBATCHES=1                                     3,307,584       9    440    0
     -DBATCHES=1 -DASKS=1 -DNORELEASE -DNOCANCEL     2,104,583       8    618    0
     no cycle (-DNP, pan -l): -DBATCHES=1 6,615,167 states; -DBATCHES=1 -DASKS=1 -DNORELEASE -DNOCANCEL 4,209,165 states
   The three reductions (FRESH, leave_await, FOLD) are argued, not proved. Not looked at: cycles in the large configurations;
   more than two workers or two calls; a second cancel; read/keyed/transactional tools (every call here is `once`); S6's
   reports to A. Not finished: a second batch behind a question (-DASKS=1 -DNOCANCEL -DNORELEASE: no error in the first
   132,000,000 states, 6,670 MB, where it was stopped).

   MUTANTS (tools/model.py runs each, and each must fail)
     NOJOURNAL      effect twice: eff <= 1 in effect()
     NOFENCE        results appended twice: K == nmsg in T8b
     NOGUARD        a decide after the withdrawn suspension of an answered cancel: !told in decide()
     NOTOMBSTONE    S1 opens after the cancel, then a decide: !told in decide()
     NOGENCHECK     an old hint resumes generation 2: effect without its own approval; with ASKS a question is re-entered
                    unanswered
     NORECON        hint lost, the run waits for ever: TERMINAL in init
     T2BEARLY       awaiting_approval shown, A has nothing: Monitor
     NOORDER        result appended at T8: a late T8 appends out of order or again: K == nmsg
     NOCLAIMBUMP    T1 does not bump: two workers with one epoch: K == nmsg in T8b
     NOSTATE        guard without the state test: T10 does not bump, so a tool is started while the run is queued
     NOSTATE NOEPOCHBUMP -DNORELEASE   without T10 it takes both, the state test and the bumps of T5 and T6, to fail: HASRES
     ASKAFTER       a server that acts and then asks: effect twice
     ASKBACK        T8n puts the call back to none instead of needs_input: it runs without its answer
     NOASKFENCE     T8n without the epoch: a frozen worker pauses a run that is another's, or is over
     NOENTRY        answers looked up by call, not by (call, entry): the second question gets the first one's answer
     W_T2BID        T2b without "same suspension_id": opened while A has nothing: Monitor
     W_WITHDRAWN    no transition for a withdrawn verdict: R dies between Withdraw and T5, the run waits for ever
     W_T5ID         T5 does not compare suspension_id with what it withdrew (or with nothing, where there was none): a decide
                    after an answered cancel
     W_STORY        T3/T4 before T2b: approval.decided without approval.requested
     W_SKIPSTARTED  T5 marks a started call skipped: its effect is on record as skipped
     W_LEFTSTARTED  a started call of a finished run is never closed
     W_LEFTNONE     recovery_exhausted leaves decided calls neither executed nor skipped
     W_LEFTASKED    the run's end leaves a call that asks neither executed nor skipped
   Harmless with -DBATCHES=1: NOEPOCHBUMP alone (3,409,573 states; the state test holds), and W_T10, T10 without the epoch
   (3,497,282 states), though there a frozen worker can let go of another's lease. */
#ifndef MAXATT
#define MAXATT 1
#endif
#ifndef BATCHES
#define BATCHES 2
#endif
#ifndef ASKS
#define ASKS 0
#endif
#define SUSPS (BATCHES + ASKS)
mtype:life = { QUEUED, RUNNING, AWAITING_APPROVAL, SUCCEEDED, FAILED, CANCELLED };    /* R.runs.state */
mtype:suspension = { ABSENT, PENDING, DECIDED, EXPIRED, WITHDRAWN, TOMBSTONE };      /* A.suspensions.state */
mtype:decision = { UNDECIDED, APPROVE, REJECT, RESPOND };                            /* a call's, or a question's */
mtype:call = { NONE, STARTED, NEEDS_INPUT, RESULT, UNKNOWN, REFUSED, SKIPPED };      /* R.tool_calls.exec_state */
#define K(b,c) (((b)-1)*2+(c))
/* what suspension s is about: batch 1 or 2, or the question of call k */
#define QUESTION(k) (3+(k))
byte about[4];
/* A's rows; index 0 is not used. adec: the decisions, by call (0 and 1 in batch 1, 2 and 3 in batch 2); qdec: by question */
mtype:suspension susp[4] = ABSENT;
mtype:decision adec[4] = UNDECIDED, qdec[4] = UNDECIDED;
bit late[4];                             /* clock_timestamp() >= expires_at */
/* R's rows: state, batches answered, gen, suspension_id (0 = null), lease_epoch, attempts, suspension_opened_at; per call
   the copied decision, exec_state, exec_epoch, entry; per question (call, entry) the copied answer */
mtype:life rst = QUEUED;
byte bat, gen, sid, epoch, attempts;
bit opened;
mtype:decision rdec[4] = UNDECIDED, rans[4] = UNDECIDED;
mtype:call ex[4] = NONE;
byte exep[4], entry[4], qentry[4];
/* the epoch each worker believes in; messages under way; T10's budget of one */
byte me[3];
byte hint[4], oopen[4];
bit owd[4];
#ifdef NORELEASE
bit released = 1;
#else
bit released;
#endif
/* seen by nobody: effects per call, verdicts per suspension, uses of an answer, result messages, approval.requested written,
   cancel answered after a Withdraw that was answered */
byte eff[4], verd[4], used[4], nmsg;
bit ereq[4], told;

#define TERMINAL (rst == SUCCEEDED || rst == FAILED || rst == CANCELLED)
#define ROWS(g)  (susp[g] != ABSENT && susp[g] != TOMBSTONE)
#define HASRES(k) (ex[k] == RESULT || ex[k] == UNKNOWN || ex[k] == REFUSED)
#define NOMORE (gen == SUSPS)
#define FREE(e) (epoch != e && me[1] != e && me[2] != e)
#define FRESH (FREE(1) -> 1 : (FREE(2) -> 2 : (FREE(3) -> 3 : 4)))
#ifdef NOFENCE
#define FENCE true
#elif defined(NOSTATE)
#define FENCE (epoch == me[w])
#else
#define FENCE (rst == RUNNING && epoch == me[w])
#endif
#ifdef W_T10
#define LETGO (rst == RUNNING && me[w] != 0)
#else
#define LETGO FENCE
#endif
#ifdef NOASKFENCE
#define ASKFENCE true
#else
#define ASKFENCE FENCE
#endif
#ifdef NOEPOCHBUMP
#define BUMP skip
#else
#define BUMP epoch = FRESH
#endif
#ifdef NOCLAIMBUMP
#define CBUMP epoch = (epoch == 0 -> 1 : epoch)
#else
#define CBUMP epoch = FRESH
#endif

/* ================= A ================= */
inline publish(g) { if :: hint[g] = 0 :: hint[g] = 2 fi }
inline expire(g) { susp[g] = EXPIRED; late[g] = 0; verd[g]++; assert(verd[g] <= 1); publish(g) }
inline decide(g) {
  if
  :: late[g] -> expire(g)
  :: else ->
     assert(!told);
     susp[g] = DECIDED; verd[g]++; assert(verd[g] <= 1);
     if
     :: about[g] <= 2 -> adec[K(about[g],0)] = APPROVE; adec[K(about[g],1)] = APPROVE
     :: about[g] <= 2 -> adec[K(about[g],0)] = APPROVE; adec[K(about[g],1)] = REJECT
#ifdef MOREDEC
     :: about[g] <= 2 -> adec[K(about[g],0)] = REJECT; adec[K(about[g],1)] = APPROVE
#endif
     :: about[g] > 2 -> qdec[g] = RESPOND
     :: about[g] > 2 -> qdec[g] = REJECT
     fi;
     publish(g)
  fi }
#ifdef NOGUARD
#define MAYDECIDE(g) (ROWS(g) && verd[g] < 2)
#else
#define MAYDECIDE(g) (susp[g] == PENDING)
#endif
proctype People() {
end_p: do
  :: atomic { MAYDECIDE(1) -> decide(1) }
#if SUSPS > 1
  :: atomic { MAYDECIDE(2) -> decide(2) }
#endif
#if SUSPS > 2
  :: atomic { MAYDECIDE(3) -> decide(3) }
#endif
  od }
#define SWEEP(g) \
  :: atomic { susp[g] == PENDING && !late[g] -> late[g] = 1 } \
  :: atomic { susp[g] == PENDING && late[g] -> expire(g) }
proctype Sweeper() {
end_s: do
  SWEEP(1)
#if SUSPS > 1
  SWEEP(2)
#endif
#if SUSPS > 2
  SWEEP(3)
#endif
  od }
/* S1, idempotent; S4 */
inline S1(g) { if :: susp[g] == ABSENT -> susp[g] = PENDING :: else -> skip fi }
inline S4(g) {
  if
  :: susp[g] == PENDING -> susp[g] = WITHDRAWN; late[g] = 0; verd[g]++; assert(verd[g] <= 1)
#ifndef NOTOMBSTONE
  :: susp[g] == ABSENT -> susp[g] = TOMBSTONE
#endif
  :: else -> skip
  fi }

/* ================= R ================= */
#ifdef W_SKIPSTARTED
#define UNSTARTED(k) (ex[k] == NONE || ex[k] == NEEDS_INPUT || ex[k] == STARTED)
#elif defined(W_LEFTASKED)
#define UNSTARTED(k) (ex[k] == NONE)
#else
#define UNSTARTED(k) (ex[k] == NONE || ex[k] == NEEDS_INPUT)
#endif
#define CLOSE1(k) ex[k] = (k < 2*bat && UNSTARTED(k) -> SKIPPED : ex[k])
inline close_calls() { d_step { CLOSE1(0); CLOSE1(1); CLOSE1(2); CLOSE1(3) } }
inline forget_hints() { hint[1] = 0; hint[2] = 0; hint[3] = 0 }
/* reduction only: messages that can change nothing any more are forgotten */
inline leave_await() { d_step {
  opened = 0;
  oopen[sid] = (susp[sid] != ABSENT -> 0 : oopen[sid]);
  hint[1] = (NOMORE || TERMINAL -> 0 : hint[1]); hint[2] = (NOMORE || TERMINAL -> 0 : hint[2]);
  hint[3] = (NOMORE || TERMINAL -> 0 : hint[3]) } }
/* T2b: the answer of S1 has arrived in R */
inline T2b(g) {
  if
#ifdef W_T2BID
  :: rst == AWAITING_APPROVAL && !opened -> opened = 1; ereq[sid] = 1
#else
  :: rst == AWAITING_APPROVAL && !opened && sid == g -> opened = 1; ereq[sid] = 1; oopen[sid] = 0
#endif
  :: else -> skip
  fi }
#ifdef NOGENCHECK
#define SAME(g) true
#else
#define SAME(g) (sid == g)
#endif
#ifdef W_STORY
#define STORY assert(ereq[sid])
#else
#define STORY ereq[sid] = 1
#endif
/* the decisions of suspension g, copied to the calls that the run now waits for */
inline copy(g) {
  if
  :: about[sid] <= 2 && about[g] <= 2 ->
     rdec[K(about[sid],0)] = adec[K(about[g],0)]; rdec[K(about[sid],1)] = adec[K(about[g],1)]
  :: about[sid] > 2 && about[g] > 2 -> rans[sid] = qdec[g]
  :: else -> skip
  fi }
/* T3, T4, T4w with the verdict v of suspension g as it was pulled from A a moment ago */
inline T34(g, v) {
  if
  :: rst == AWAITING_APPROVAL && SAME(g) && v == DECIDED -> STORY; copy(g); rst = QUEUED; leave_await()
  :: rst == AWAITING_APPROVAL && SAME(g) && v == EXPIRED -> STORY; close_calls(); rst = FAILED; leave_await()
#ifndef W_WITHDRAWN
  :: rst == AWAITING_APPROVAL && SAME(g) && (v == WITHDRAWN || v == TOMBSTONE) ->
     BUMP; close_calls(); rst = CANCELLED; leave_await()
#endif
  :: else -> skip
  fi }
/* what R does with S1's answer */
inline ack(g, v) { if :: v == TOMBSTONE -> T34(g, v) :: else -> T2b(g) fi }
/* each delivery: pull the verdict from A, then one transaction in R */
#define DELIVER(s) :: atomic { hint[s] > 0 -> hint[s]--; g = s; v = susp[s] }; atomic { T34(g, v); g = 0; v = 0 }
proctype Consumer() { byte g; mtype:suspension v;
end_c: do
  DELIVER(1)
#if SUSPS > 1
  DELIVER(2)
#endif
#if SUSPS > 2
  DELIVER(3)
#endif
  od }
/* R's outbox: open suspension (a step apart from its acknowledgement), withdraw */
#define RELAY(s) \
  :: atomic { oopen[s] > 0 -> oopen[s]--; g = s; S1(s); v = susp[s] }; atomic { ack(g, v); g = 0; v = 0 } \
  :: atomic { owd[s] -> owd[s] = 0; S4(s) }
proctype Relay() { byte g; mtype:suspension v;
end_r: do
  RELAY(1)
#if SUSPS > 1
  RELAY(2)
#endif
#if SUSPS > 2
  RELAY(3)
#endif
  od }
#ifdef W_WITHDRAWN
#define SETTLED(g) (susp[g] == DECIDED || susp[g] == EXPIRED)
#define OPENABLE(g) (susp[g] != TOMBSTONE)
#else
#define SETTLED(g) (susp[g] != ABSENT && susp[g] != PENDING)
#define OPENABLE(g) true
#endif
#define LEFT(k) (ex[k] == STARTED)
#define UNK1(k) ex[k] = (ex[k] == STARTED -> UNKNOWN : ex[k])
/* the reconcilers; only what finds something to repair, so that it comes to rest */
proctype Reconciler() { byte g; mtype:suspension v;
end_q: do
  :: atomic { rst == AWAITING_APPROVAL && SETTLED(sid) -> g = sid; v = susp[g] }; atomic { T34(g, v); g = 0; v = 0 }
  :: atomic { rst == AWAITING_APPROVAL && !opened && OPENABLE(sid) -> g = sid; S1(g); v = susp[g] };
     atomic { ack(g, v); g = 0; v = 0 }
  :: atomic { TERMINAL && susp[1] == PENDING -> S4(1) }
#if SUSPS > 1
  :: atomic { TERMINAL && susp[2] == PENDING -> S4(2) }
#endif
#if SUSPS > 2
  :: atomic { TERMINAL && susp[3] == PENDING -> S4(3) }
#endif
#ifndef W_LEFTSTARTED
  :: atomic { TERMINAL && (LEFT(0) || LEFT(1) || LEFT(2) || LEFT(3)) -> d_step { UNK1(0); UNK1(1); UNK1(2); UNK1(3) } }
#endif
  od }
/* T6 */
proctype Reaper() {
end_l: do
  :: atomic { rst == RUNNING ->
       BUMP;
       if
       :: attempts < MAXATT -> attempts++; rst = QUEUED
       :: else -> rst = FAILED; forget_hints();
#ifndef W_LEFTNONE
          close_calls()
#endif
       fi }
  od }
/* T5: read the run, Withdraw, commit */
proctype Canceller() { byte c; bit ok;
  if :: skip :: goto no fi;
again:
  if
  :: atomic { TERMINAL -> goto no }
  :: atomic { !TERMINAL && sid == 0 -> c = 0; ok = 1; goto t5 }
  :: atomic { !TERMINAL && sid != 0 -> c = sid; ok = 1 }
  fi;
  if
  :: atomic { true -> S4(c) }                              /* answered in time */
  :: atomic { true -> S4(c); ok = 0 }                      /* done, the answer is lost */
  :: ok = 0                                                /* never arrived */
  :: atomic { true -> S4(c); goto no }                     /* R's API dies here */
  fi;
t5: atomic {
    if
    :: rst == CANCELLED -> told = ok
    :: TERMINAL && rst != CANCELLED -> skip
#ifdef W_T5ID
    :: !TERMINAL ->
#else
    :: !TERMINAL && ok && sid != c && sid != 0 -> goto again
    :: !TERMINAL && !(ok && sid != c && sid != 0) ->
#endif
       rst = CANCELLED; BUMP; close_calls(); leave_await();
       owd[sid] = (sid != 0 && !ok -> 1 : owd[sid]);
       told = ok
    fi };
no: atomic { c = 0; ok = 0 } }
#ifdef NOORDER
#define APPEND(k) assert((k) == nmsg); nmsg++
#else
#define APPEND(k) skip
#endif
/* reduction only: a call of a finished batch that nobody can touch any more is folded to one shape; eff = 1 means that any
   later effect is an error */
#define DONE(k) (k < 2*(bat - (sid != 0 -> 1 : 0)) && exep[k] == 0 && HASRES(k))
#define FOLD(k) if :: DONE(k) -> ex[k] = RESULT; eff[k] = 1; entry[k] = 0 :: else -> skip fi
#define DROP(k) exep[k] = (exep[k] == me[w] -> 0 : exep[k])
inline die() { d_step {
  if :: me[1] == me[2] -> skip :: else -> DROP(0); DROP(1); DROP(2); DROP(3) fi;
  me[w] = 0; g = 0; c = 0;
  FOLD(0); FOLD(1); FOLD(2); FOLD(3) } }
/* T2's part of T1b and of T8n */
inline suspend(what) {
  gen++; sid = gen; about[gen] = what; rst = AWAITING_APPROVAL;
  if :: oopen[gen] = 0 :: oopen[gen] = 2 fi;
#ifdef T2BEARLY
  opened = 1
#else
  opened = 0
#endif
}
/* once, approved, and with every question of this call answered */
#define SURE(s,k) (about[s] != QUESTION(k) || qdec[s] == RESPOND)
inline effect() {
  eff[K(g,c)]++; assert(eff[K(g,c)] <= 1);
  assert(adec[K(g,c)] == APPROVE);
  assert(SURE(2,K(g,c)) && SURE(3,K(g,c))) }
/* decisions are looked up by (call, entry) */
#ifdef NOENTRY
#define AT(s,k) (about[s] == QUESTION(k))
#else
#define AT(s,k) (about[s] == QUESTION(k) && qentry[s] == entry[k])
#endif
#define REENTER(s) \
          :: ex[K(g,c)] == NEEDS_INPUT && AT(s,K(g,c)) && rans[s] == RESPOND -> \
             assert(rst == RUNNING && qentry[s] == entry[K(g,c)]); used[s]++; assert(used[s] <= 1); \
             entry[K(g,c)]++; ex[K(g,c)] = STARTED; exep[K(g,c)] = me[w] \
          :: ex[K(g,c)] == NEEDS_INPUT && AT(s,K(g,c)) && rans[s] == REJECT -> \
             ex[K(g,c)] = REFUSED; APPEND(K(g,c)); c++; goto batch
#ifdef ASKBACK
#define ASKED NONE
#else
#define ASKED NEEDS_INPUT
#endif
proctype Worker(byte w) { byte g, c;                         /* g: in a batch its number, else the suspension */
end_w: do
  :: atomic { rst == QUEUED ->                              /* T1 */
       rst = RUNNING; CBUMP; me[w] = epoch;
       if :: sid == 0 -> goto ask :: else -> g = bat; goto batch fi };
ask: if
     :: atomic { bat < BATCHES && FENCE -> bat++; attempts = 0; suspend(bat); g = gen; goto open }   /* T1b + T2 */
     :: atomic { bat == BATCHES && FENCE -> rst = SUCCEEDED; forget_hints(); die(); goto end_w }     /* T9 */
     :: atomic { LETGO && !released -> released = 1; rst = QUEUED; die(); goto end_w }               /* T10 */
     :: atomic { true -> die(); goto end_w }
     fi;
open:
     if
     :: atomic { true -> S1(g); if :: susp[g] == TOMBSTONE -> die(); goto end_w :: else -> skip fi };
        if
        :: atomic { true -> T2b(g); die(); goto end_w }
        :: atomic { true -> die(); goto end_w }
        fi
     :: atomic { true -> die(); goto end_w }
     fi;
batch:
     if
     :: atomic { c < 2 && FENCE ->                           /* T7, or what the row already says */
          if
          :: ex[K(g,c)] == NONE && rdec[K(g,c)] == APPROVE ->
             assert(rst == RUNNING);
#ifndef NOJOURNAL
             ex[K(g,c)] = STARTED; exep[K(g,c)] = me[w]
#endif
          :: ex[K(g,c)] == NONE && rdec[K(g,c)] == REJECT -> ex[K(g,c)] = REFUSED; APPEND(K(g,c)); c++; goto batch
          :: ex[K(g,c)] == STARTED && exep[K(g,c)] != me[w] -> ex[K(g,c)] = UNKNOWN; APPEND(K(g,c)); c++; goto batch
#if ASKS > 0
          REENTER(2)
#endif
#if SUSPS > 2
          REENTER(3)
#endif
          :: else -> assert(HASRES(K(g,c))); c++; goto batch
          fi };
        if
        :: atomic { effect() }
        :: atomic { LETGO && !released -> released = 1; rst = QUEUED };        /* T10, the drain is over, the tool goes on */
           if
           :: atomic { effect() }
           :: atomic { true -> die(); goto end_w }
           fi
#if ASKS > 0
        :: atomic { gen - bat < ASKS && ex[K(g,c)] == STARTED && exep[K(g,c)] == me[w] && ASKFENCE ->   /* T8n + T2 */
#ifdef ASKAFTER
             effect();
#endif
             ex[K(g,c)] = ASKED; exep[K(g,c)] = 0; suspend(QUESTION(K(g,c))); qentry[gen] = entry[K(g,c)];
             c = 0; g = gen; goto open }
#endif
        :: atomic { true -> die(); goto end_w }
        fi;
        if
        :: atomic { true ->                                 /* T8 */
             if
#ifdef NOJOURNAL
             :: ex[K(g,c)] == NONE -> ex[K(g,c)] = RESULT
#else
             :: (ex[K(g,c)] == STARTED || ex[K(g,c)] == UNKNOWN) && exep[K(g,c)] == me[w] ->
                ex[K(g,c)] = RESULT; exep[K(g,c)] = 0; APPEND(K(g,c))
#endif
             :: else -> skip
             fi;
             c++; goto batch }
        :: atomic { true -> die(); goto end_w }
        fi
     :: atomic { c == 2 && FENCE ->                          /* T8b */
          assert(HASRES(K(g,0)) && HASRES(K(g,1)));
#ifndef NOORDER
          assert(K(g,0) == nmsg); nmsg++; assert(K(g,1) == nmsg); nmsg++;
#endif
          d_step { sid = 0; g = 0; c = 0; FOLD(0); FOLD(1); FOLD(2); FOLD(3) };
          goto ask }
     :: atomic { LETGO && !released -> released = 1; rst = QUEUED; die(); goto end_w }      /* T10 */
     :: atomic { true -> die(); goto end_w }
     fi
  od }
/* whoever sees awaiting_approval sees its approvals */
proctype Monitor() {
end_m: atomic { rst == AWAITING_APPROVAL && opened && !ROWS(sid) -> assert(false) } }
#define FIN(k) \
  assert(eff[k] == 0 || ex[k] == RESULT || ex[k] == UNKNOWN); \
  assert(ex[k] != RESULT || eff[k] == 1); \
  assert(k >= 2*bat || (ex[k] != NONE && ex[k] != STARTED && ex[k] != NEEDS_INPUT))
init {
  atomic { run People(); run Sweeper(); run Consumer(); run Relay(); run Reaper();
#ifndef NOCANCEL
    run Canceller();
#endif
    run Monitor(); run Worker(1); run Worker(2);
#ifndef NORECON
    run Reconciler();
#endif
  }
  timeout;
  atomic {
  assert(TERMINAL);
  assert(rst != SUCCEEDED || nmsg == 2 * BATCHES);
  assert(susp[1] != PENDING && susp[2] != PENDING && susp[3] != PENDING);
#ifndef NOFIN
  FIN(0); FIN(1); FIN(2); FIN(3)
#else
  skip
#endif
  }
}
