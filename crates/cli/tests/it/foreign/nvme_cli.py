# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs nvme-cli's tests in the current folder, a checkout. Prints a line for each: "result NAME passed|failed|skipped"."""

import sys
import unittest

sys.path.insert(0, "tests")
import nvme_test


def default_namespace(self):
    """Takes the namespace that is there: the controller has no Namespace Management."""
    self.dps = self.flbas = 0


nvme_test.TestNVMe.create_and_attach_default_ns = default_namespace


class Result(unittest.TextTestResult):
    def tell(self, test, status):
        print("result", test.id(), status, file=sys.__stdout__, flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.tell(test, "passed")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.tell(test, "failed")

    def addError(self, test, err):
        super().addError(test, err)
        self.tell(test, "failed")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.tell(test, "skipped")


tests = unittest.defaultTestLoader.discover("tests", pattern="nvme_*_test.py")
unittest.TextTestRunner(resultclass=Result).run(tests)
