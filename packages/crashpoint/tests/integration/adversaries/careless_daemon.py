"""The real daemon with one of its guards broken. argv: which one, then the daemon's own."""

import json
import socket
import sys

from crashpoint.ledger import daemon
from crashpoint.ledger import desk as desk_module
from crashpoint.ledger.desk import Desk, Peer, _Trial
from crashpoint.ledger.tally import Tally

invoke = Desk.invoke


def peers_are_all_alike():
    Peer.__eq__ = lambda *_: True
    Peer.__hash__ = lambda _: 0


def any_known_id_is_a_resend():
    class Careless(set):
        def __contains__(self, promise):
            return any(promise[1] == known[1] for known in self)

    make = _Trial.__init__

    def made(self, *args):
        make(self, *args)
        self.sent = Careless()

    _Trial.__init__ = made


def any_token_will_do():
    Desk._of_token = staticmethod(lambda table, _token: list(table.values())[-1])


def unknown_members_are_let_through():
    desk_module._INVOKE |= {"peer", "pid", "uid", "gid", "start", "kind", "mismatch"}


def the_request_says_who_it_is_from():
    def believe(self, peer, line):
        action = json.loads(line)["action"]
        return invoke(self, Peer(**action["peer"]) if isinstance(action, dict) else peer, line)

    Desk.invoke = believe


def the_answer_says_whether_it_was_new():
    def tell(self, peer, line):
        reply = invoke(self, peer, line)
        trial = self._invoke[json.loads(line)["trial"]]
        return {**reply, "new": trial.chain.records[-1]["kind"] == "attempt"}

    Desk.invoke = tell


def known_keys_are_not_written_down():
    def shrug(self, peer, line):
        request = json.loads(line)
        trial = self._invoke[request["trial"]]
        if (request["effect"], request["key"]) in trial.first_action:
            return {"receipt": "x" * 64}
        return invoke(self, peer, line)

    Desk.invoke = shrug


def the_seal_takes_no_token_away():
    real = Desk._do_seal

    def seal(self, request):
        tables = dict(self._invoke), dict(self._witness)
        reply = json.loads(json.dumps(real(self, request)))
        self._invoke.update(tables[0])
        self._witness.update(tables[1])
        return reply

    Desk._do_seal = seal


def the_invoke_socket_takes_the_controllers_words():
    def obey(self, peer, line):
        return self.admin(line) if b'"seq"' in line else invoke(self, peer, line)

    Desk.invoke = obey


def what_cannot_be_read_is_the_end():
    desk_module.NotCanonical = KeyError


def any_file_is_believed():
    Tally.resume = Tally.add


def there_is_another_way_in():
    way = socket.socket(socket.AF_UNIX)
    way.bind("\0crashpoint")
    way.listen()
    globals()["way"] = way


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    daemon.Desk = Desk
    sys.exit(daemon.main(sys.argv[2:]))
