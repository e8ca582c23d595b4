/* Names to build.rs what the programs share with their loader: the type of each of these, and all that
 * they consist of, becomes a type or constants in Rust. Never loaded.
 *
 * Principles: a variable for each key and value of a map that the loader opens, and for each enum whose
 * names it needs.
 */
#include "types.h"

struct config config;
struct rule rule;
struct name_key name_key;
struct name name;
struct dns_answer dns_answer;
struct flow_key flow_key;
struct flow flow;
struct line line;
struct rtt_sample rtt_sample;
struct counts counts;
struct policer policer;
struct policed policed;
struct probe_sender probe_sender;
struct probe_key probe_key;

enum direction direction;
enum limits limits;
enum priority_mode priority_mode;
enum rule_flags rule_flags;
enum reason reason;
enum name_kind name_kind;
enum positions positions;
enum framing_mode framing_mode;
enum grant_flags grant_flags;
enum flow_flags flow_flags;
enum probe_number probe_number;
