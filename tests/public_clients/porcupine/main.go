// Checks histories of sequences with porcupine, a second opinion beside tests/campaigns/linearizable.py.
//
// Reads a JSON list of histories, {"model": "stateful" or "batched", "operations": [{"call", "return", "what", "x", "told", "sum"}]},
// times in nanoseconds, "return" -1 where the client never heard. Writes a JSON list of "Ok", "Illegal" or "Unknown".
package main

import (
	"encoding/json"
	"log"
	"math"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

type operation struct {
	Call   int64
	Return int64
	What   string
	X      int64
	Told   string
	Sum    int64
}

type history struct {
	Model      string
	Operations []operation
}

// No sequence, or one with a sum.
type state struct {
	lives bool
	sum   int64
}

var none = state{}

func same(s state) []interface{} { return []interface{}{s} }

func after(s state, o operation) interface{} {
	switch o.What {
	case "start":
		return state{true, o.X}
	case "end":
		return none
	}
	return state{true, s.sum + o.X}
}

// OpenVINO's stateful models: a sequence is started once, and a request that fails leaves nothing.
func stateful(s state, o operation) []interface{} {
	possible := s.lives != (o.What == "start")
	switch o.Told {
	case "refused":
		return same(s)
	case "missing":
		if o.What != "start" && !s.lives {
			return same(s)
		}
	case "exists":
		if o.What == "start" && s.lives {
			return same(s)
		}
	case "sum":
		if possible && o.Sum == s.sum+o.X {
			return []interface{}{after(s, o)}
		}
	case "":
		if !possible {
			return same(s)
		}
		return []interface{}{s, after(s, o)}
	}
	return nil
}

// Sequences of Triton's models: a start begins anew, and one whose client goes away may end.
func batched(s state, o operation) []interface{} {
	switch o.Told {
	case "lost":
		return same(none)
	case "failed":
		return []interface{}{s, none}
	case "refused":
		return same(s)
	case "missing":
		if o.What != "start" && !s.lives {
			return same(s)
		}
	case "sum":
		total := s.sum + o.X
		if o.What == "start" {
			total = o.X
		}
		if (o.What == "start" || s.lives) && o.Sum == total {
			return []interface{}{after(s, o)}
		}
	case "":
		if o.What == "lose" || (o.What != "start" && !s.lives) {
			return []interface{}{s, none}
		}
		return []interface{}{s, none, after(s, o)}
	}
	return nil
}

func main() {
	var histories []history
	if err := json.NewDecoder(os.Stdin).Decode(&histories); err != nil {
		log.Fatal(err)
	}
	steps := map[string]func(state, operation) []interface{}{"stateful": stateful, "batched": batched}
	verdicts := []string{}
	for _, each := range histories {
		step := steps[each.Model]
		nondeterministic := porcupine.NondeterministicModel{
			Init: func() []interface{} { return same(none) },
			Step: func(s, input, _ interface{}) []interface{} { return step(s.(state), input.(operation)) },
		}
		operations := []porcupine.Operation{}
		for client, o := range each.Operations {
			if o.Return < 0 {
				o.Return = math.MaxInt64
			}
			operations = append(operations, porcupine.Operation{ClientId: client, Input: o, Call: o.Call, Return: o.Return})
		}
		verdicts = append(verdicts, string(porcupine.CheckOperationsTimeout(nondeterministic.ToModel(), operations, 20*time.Second)))
	}
	if err := json.NewEncoder(os.Stdout).Encode(verdicts); err != nil {
		log.Fatal(err)
	}
}
